"""The tensors behind `engine.paged.blocks`: keys and values of all layers, in blocks of 16 tokens.

Which block is whose is the block pool's business, which tokens go where that of
`engine.paged.rows`; here is only the memory.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from lookhear.engine.paged.blocks import BLOCK_TOKENS


class PagedCache:
    """layers: each [2, blocks, 16, kv_heads, dim], keys then values, allocated once.
    features: [blocks * 16, width], what a draft head reads of each token; None: there is no head.

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
        features: tuple[int, torch.dtype] | None = None,
    ) -> None:
        """features: their width and what they are in."""
        assert min(num_layers, kv_heads, dim) >= 1 and num_blocks >= 2
        shape = (2, num_blocks, BLOCK_TOKENS, kv_heads, dim)
        # Written once now, not when a block is first used: so memory does not grow later on.
        self.layers: list[Tensor] = [
            torch.empty(shape, dtype=dtype, device=device).zero_() for _ in range(num_layers)
        ]
        self.features: Tensor | None = None
        if features is not None:
            width, kind = features
            size = num_blocks * BLOCK_TOKENS
            self.features = torch.zeros((size, width), dtype=kind, device=device)
        self.num_blocks = num_blocks

    @property
    def num_bytes(self) -> int:
        """Of all layers, and features."""
        beside = 0 if self.features is None else self.features.nbytes
        return beside + sum(layer.nbytes for layer in self.layers)


@dataclass(frozen=True, slots=True)
class PagedBatch:
    """Where the packed tokens of one step belong: those of row 0, of row 1, ..., then padding.

    positions: [tokens] int64, or [3, tokens] for M-RoPE. slots: [tokens] int64, where to write.
    block_tables: [rows, max_blocks] int64, 0 beyond a row's blocks. past_lengths, query_lengths:
    [rows] int64, tokens in the cache already and in this step. is_decode: whether every row has one
    token in this step, rows of padding too.
    """

    positions: Tensor
    slots: Tensor
    block_tables: Tensor
    past_lengths: Tensor
    query_lengths: Tensor
    is_decode: bool = False
