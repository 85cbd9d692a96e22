"""Qwen3 as a model that chats: a decoder that knows where its answers end, and sees nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import Tensor

from lookhear.engine.checkpoints.end_tokens import end_tokens
from lookhear.engine.checkpoints.loader import read_json
from lookhear.engine.models.qwen3 import Qwen3Model
from lookhear.engine.paged.request import Medium


class Qwen3ChatModel:
    """decoder: see `Qwen3Model`. end_tokens: ids that end an answer."""

    def __init__(self, decoder: Qwen3Model, ends: tuple[int, ...]) -> None:
        self.decoder = decoder
        self.end_tokens = ends
        self.num_parameters = decoder.num_parameters

    @classmethod
    def from_folder(
        cls,
        folder: Path,
        *,
        dtype: torch.dtype = torch.float32,
        half: bool = False,
        device: torch.device | str = "cpu",
        progress: Callable[[float], None] | None = None,
    ) -> Qwen3ChatModel:
        """Loads a Hugging Face folder; raises `CheckpointError`. half: see `read_weights`."""
        decoder = Qwen3Model.from_folder(
            folder, dtype=dtype, half=half, device=device, progress=progress
        )
        return cls(decoder, end_tokens(folder, read_json(folder / "config.json")))

    def encode(self, media: Sequence[Medium]) -> list[Tensor]:
        """Nothing can be shown to it: requests with media are refused before they get here."""
        raise AssertionError(f"a text-only model was given {len(media)} media")
