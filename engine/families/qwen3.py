"""Qwen3, text only: a decoder that chats."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from lookhear.engine.config import EngineConfig
from lookhear.engine.families.chat import Vision, chat_parts
from lookhear.engine.families.family import (
    Family,
    Parts,
    acceleration_of,
    chosen_dtype,
    half_decoder,
)
from lookhear.engine.models.qwen3_chat import Qwen3ChatModel


def build(
    config: EngineConfig, folder: Path, device: str, progress: Callable[[float], None]
) -> Parts:
    """See `Family.build`."""
    dtype = chosen_dtype(config.dtype, device, folder)
    half = half_decoder(config.dtype, device, folder)
    model = Qwen3ChatModel.from_folder(
        folder, dtype=dtype, half=half, device=device, progress=progress
    )
    return chat_parts(
        config,
        folder,
        acceleration_of(config, device),
        model,
        model.decoder,
        Vision(None, 0, None),
        dtype,
        model.num_parameters,
    )


FAMILY = Family(
    name="Qwen3",
    architectures=("Qwen3ForCausalLM",),
    build=build,
    abilities=("chat",),
)
