"""The tensors behind `engine/kv_cache.py`: keys and values of all layers, in blocks of 16 tokens.

Which block is whose is the block pool's business; here are only the memory and the arithmetic
from tokens to slots.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.kv_cache import BLOCK_TOKENS, TRASH


class PagedCache:
    """layers: each [2, blocks, 16, kv_heads, dim], keys then values, allocated once.

    Block 0 is the trash block: zeroed, written by padding, read by nobody real. Other blocks keep
    what they held when they are given to somebody else; lengths say what is real.
    """

    def __init__(
        self,
        num_layers: int,
        num_blocks: int,
        kv_heads: int,
        dim: int,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        assert min(num_layers, kv_heads, dim) >= 1 and num_blocks >= 2
        shape = (2, num_blocks, BLOCK_TOKENS, kv_heads, dim)
        # Written once now, not when a block is first used: so memory does not grow later on.
        self.layers: list[Tensor] = [
            torch.empty(shape, dtype=dtype, device=device).zero_() for _ in range(num_layers)
        ]
        self.num_blocks = num_blocks

    @property
    def num_bytes(self) -> int:
        return sum(layer.nbytes for layer in self.layers)


@dataclass(frozen=True, slots=True)
class PagedBatch:
    """Where the packed tokens of one step belong: those of row 0, of row 1, ..., then padding.

    positions: [tokens] int64, or [3, tokens] for M-RoPE. slots: [tokens] int64, where to write.
    block_tables: [rows, max_blocks] int64, 0 beyond a row's blocks. past_lengths, query_lengths:
    [rows] int64, tokens in the cache already and in this step.
    """

    positions: Tensor
    slots: Tensor
    block_tables: Tensor
    past_lengths: Tensor
    query_lengths: Tensor

    @property
    def last_tokens(self) -> Tensor:
        """[rows] index of each row's last token, whose logits predict the next one. Rows that
        have no tokens in this step have no last one either: do not read theirs."""
        return self.query_lengths.cumsum(0) - 1


def paged_batch(
    block_tables: Sequence[Sequence[int]],
    past_lengths: Sequence[int],
    query_lengths: Sequence[int],
    *,
    num_tokens: int | None = None,
    positions: Tensor | None = None,
    device: torch.device | str = "cpu",
) -> PagedBatch:
    """The batch in which row r adds query_lengths[r] tokens behind its past_lengths[r].

    block_tables: of each row, block ids that cover all its tokens. num_tokens: of the step,
    padding included (default: no padding). positions: as in `PagedBatch`; default: the place of a
    token in its row, which is right for everything but images. Padding has position 0, and its
    slots are those of the trash block.
    """
    total = sum(query_lengths)
    num_tokens = total if num_tokens is None else num_tokens
    assert num_tokens >= total, (num_tokens, total)
    slots = [TRASH * BLOCK_TOKENS + i % BLOCK_TOKENS for i in range(num_tokens)]
    places = [0] * num_tokens
    token = 0
    for table, past, new in zip(block_tables, past_lengths, query_lengths, strict=True):
        assert past + new <= len(table) * BLOCK_TOKENS, (past, new, len(table))
        assert TRASH not in table, "the trash block belongs to nobody"
        for place in range(past, past + new):
            slots[token] = table[place // BLOCK_TOKENS] * BLOCK_TOKENS + place % BLOCK_TOKENS
            places[token] = place
            token += 1
    width = max(map(len, block_tables), default=0)
    padded = [[*table, *[TRASH] * (width - len(table))] for table in block_tables]

    def index(values: Sequence[Sequence[int]] | Sequence[int]) -> Tensor:
        return torch.tensor(values, dtype=torch.int64, device=device)

    return PagedBatch(
        positions=index(places) if positions is None else positions,
        slots=index(slots),
        block_tables=index(padded),
        past_lengths=index(past_lengths),
        query_lengths=index(query_lengths),
    )
