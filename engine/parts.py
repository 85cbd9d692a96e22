"""What a kind of checkpoint brings to a core, and the choices that all kinds share."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from engine.desk import Desk
from engine.runner import Runner
from kernels import default_cpu_dtype

# Weights of which less than this stay in the processor's cache: halving them saves nothing.
SMALL_CHECKPOINT_BYTES = 64 * 2**20


@dataclass(frozen=True, slots=True)
class Parts:
    """encoder_budget: of a step, in the unit of the desk's costs. The last four are for the model's
    card, see `engine.messages.ModelCard`."""

    desk: Desk
    runner: Runner[Any, Any]
    num_parameters: int
    dtype: torch.dtype
    encoder_budget: int
    abilities: list[str]
    languages: list[str] = field(default_factory=list)
    has_word_times: bool = False
    context_tokens: int = 0


def chosen_dtype(name: str, device: str, folder: Path | None = None) -> torch.dtype:
    """The fastest one that keeps the words, for "auto". folder: of a checkpoint that stays in
    float32 on a CPU if it is small."""
    if name != "auto":
        dtype: torch.dtype = getattr(torch, name)
        return dtype
    if device != "cpu":
        return torch.bfloat16
    if folder is not None:
        size = sum(path.stat().st_size for path in folder.glob("*.safetensors"))
        if size < SMALL_CHECKPOINT_BYTES:
            return torch.float32
    return default_cpu_dtype()
