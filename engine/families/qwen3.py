"""Qwen3, text only: a decoder that chats; or, as Qwen3-Embedding and Qwen3-Reranker, reads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from lookhear.engine.checkpoints.end_tokens import end_tokens
from lookhear.engine.checkpoints.loader import read_json
from lookhear.engine.config import EngineConfig
from lookhear.engine.families.family import (
    Family,
    Parts,
    beside_linears,
    chosen_dtype,
    half_decoder,
    linear_dtype,
)
from lookhear.engine.families.parts.adapting import adapters_of
from lookhear.engine.families.parts.chat import DRAFTED_BY, chat_parts
from lookhear.engine.families.parts.pooling import judging_words
from lookhear.engine.models.qwen3 import Qwen3ChatModel, Qwen3Model


def build(
    config: EngineConfig, folder: Path, device: str, progress: Callable[[float], None]
) -> Parts:
    """See `Family.build`."""
    linears = linear_dtype(config.dtype, device)
    dtype = beside_linears(linears) or chosen_dtype(config.dtype, device, folder)
    half = half_decoder(config.dtype, device, folder)
    decoder = Qwen3Model.from_folder(
        folder,
        dtype=dtype,
        half=half,
        linears=linears,
        kept=judging_words(folder),
        device=device,
        progress=progress,
    )
    model = Qwen3ChatModel(decoder, end_tokens(folder, read_json(folder / "config.json")))
    adapters = adapters_of(config, decoder)
    return chat_parts(config, folder, device, model, linears=linears, adapters=adapters)


FAMILY = Family(
    name="Qwen3",
    architectures=("Qwen3ForCausalLM",),
    build=build,
    rounds_cache=True,
    abilities=("chat", "embed", "score", "adapters", "prompt_embeds"),
    drafted_by=DRAFTED_BY,
    takes_heads=True,
)
