"""From a checkpoint folder to the model that can run it, by the architecture in its config.json."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch

from engine.models.loader import CheckpointError, read_json
from engine.models.whisper import WhisperModel

Loader = Callable[..., WhisperModel]


def supported_architectures() -> dict[str, Loader]:
    """Architecture name, as Hugging Face writes it, to the function that loads a folder."""
    return {"WhisperForConditionalGeneration": WhisperModel.from_folder}


def architecture_of(folder: Path) -> str:
    """The supported architecture of a folder; raises `CheckpointError` naming those we have."""
    path = folder / "config.json"
    named = read_json(path).get("architectures")
    names = [str(name) for name in named] if isinstance(named, list) else []
    for name in names:
        if name in supported_architectures():
            return name
    raise CheckpointError(
        f"{path}: architectures: expected one of {', '.join(supported_architectures())}, "
        f"got {', '.join(names) or repr(named)}"
    )


def load_model(
    folder: Path,
    *,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
    progress: Callable[[float], None] | None = None,
    trim_head: bool = True,
) -> WhisperModel:
    """Loads whatever supported checkpoint the folder holds; progress hears the share, 0 to 1.

    trim_head: see `WhisperModel.from_folder`.
    """
    loader = supported_architectures()[architecture_of(folder)]
    return loader(folder, dtype=dtype, device=device, progress=progress, trim_head=trim_head)
