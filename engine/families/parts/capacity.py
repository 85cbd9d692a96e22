"""How much an engine takes on at once, where its configuration leaves that to the device."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import torch

from lookhear.engine.checkpoints.loader import CheckpointError
from lookhear.engine.config import EngineConfig
from lookhear.engine.models.qwen3 import Qwen3Model
from lookhear.engine.paged.blocks import BLOCK_TOKENS

GIB = 2**30
LARGE_CARD_GIB = 40
KV_SHARE = 0.4  # of what is free on a card before the weights are there
SPARE_SHARE = 0.8  # of what the weights leave: the rest is for graphs and to compute in


@dataclass(frozen=True, slots=True)
class CardMemory:
    """Of a card, in bytes."""

    free: int
    total: int


def card_memory(device: str) -> CardMemory | None:
    """None for a CPU."""
    return CardMemory(*torch.cuda.mem_get_info(device)) if device.startswith("cuda") else None


def check_room(folder: Path, weights: int, card: CardMemory | None) -> None:
    """weights: bytes that a checkpoint takes as it is served. Raises `CheckpointError` where a card
    cannot hold them: loading would end in the middle, without a word of how much is missing."""
    if card is not None and weights > card.free:
        raise CheckpointError(
            f"{folder}: its weights take {weights / GIB:.1f} GiB, "
            f"{card.free / GIB:.1f} GiB are free on the card"
        )


def fitted(
    config: EngineConfig, card: CardMemory | None, card_rows: int, weights: int = 0
) -> EngineConfig:
    """The configuration with a number for all that was left open: what a few cores can do, or a
    card of so much memory. What was given stays, but for a token budget that all rows at once would
    exceed. A card's memory is shared with other replicas, each with weights of its own. card_rows:
    the family's, see `Family`. weights: bytes of one's, all experts and a draft model included."""
    if card is None:
        rows, turns, tokens, kv, overlap = 16, 64, 512, 1.0, 0
    else:
        # 800 ticks a second in steps of 15 ms, ten steps each, want 120.
        rows = card_rows
        if card.total < LARGE_CARD_GIB * GIB:
            rows //= 2
        # Bounded by what is useful, and by what the card has.
        turns, tokens, overlap = 1024, 2048, 1
        # Replicas that are there already hold their weights: no more than what is taken can be.
        there = min(config.replicas - 1, (card.total - card.free) // max(1, weights))
        left = card.free - (config.replicas - there) * weights
        room = min(KV_SHARE * card.free, SPARE_SHARE * left)
        kv = max(0.25, room / GIB / config.replicas)
    rows = config.max_rows or rows
    return replace(
        config,
        max_rows=rows,
        max_live_turns=config.max_live_turns or turns,
        token_budget=max(config.token_budget or tokens, rows + 1),
        kv_cache_gigabytes=config.kv_cache_gigabytes or kv,
        overlap=overlap if config.overlap is None else config.overlap,
    )


def num_blocks(
    config: EngineConfig,
    decoder: Qwen3Model,
    *,
    longest: int,
    useful: int,
    beside: int = 0,
) -> int:
    """Of a paged cache: as many as the memory allows, but no more than are of use, and the trash
    block. longest: blocks of one request at most, for which there is always room. beside: bytes of
    a token that are kept besides its keys and values."""
    block_bytes = BLOCK_TOKENS * (bytes_per_token(decoder) + beside)
    return 1 + max(longest, min(useful, int(config.kv_cache_gigabytes * 2**30) // block_bytes))


def bytes_per_token(decoder: Qwen3Model) -> int:
    """Of its keys and values."""
    dims = decoder.dims
    element = torch.empty(0, dtype=decoder.cache_dtype).element_size()
    return 2 * dims.layers * dims.kv_heads * dims.head_dim * element
