"""Which kind of model a checkpoint folder holds, by the architecture in its config.json."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch

from lookhear.engine.checkpoints.loader import CheckpointError, read_json
from lookhear.engine.whisper.model import WhisperModel

WHISPER = "WhisperForConditionalGeneration"
QWEN3_ASR = "Qwen3ASRForConditionalGeneration"
QWEN3 = "Qwen3ForCausalLM"
QWEN3_VL = "Qwen3VLForConditionalGeneration"
ARCHITECTURES = (WHISPER, QWEN3, QWEN3_ASR, QWEN3_VL)  # as Hugging Face writes them


def architecture_of(folder: Path) -> str:
    """The supported architecture of a folder; raises `CheckpointError` naming those we have."""
    path = folder / "config.json"
    named = read_json(path).get("architectures")
    names = [str(name) for name in named] if isinstance(named, list) else []
    for name in names:
        if name in ARCHITECTURES:
            return name
    raise CheckpointError(
        f"{path}: architectures: expected one of {', '.join(ARCHITECTURES)}, "
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
    """Loads a Whisper checkpoint, by its architecture; progress hears the share, 0 to 1.

    trim_head: see `WhisperModel.from_folder`.
    """
    architecture = architecture_of(folder)
    assert architecture == WHISPER, architecture
    return WhisperModel.from_folder(
        folder, dtype=dtype, device=device, progress=progress, trim_head=trim_head
    )
