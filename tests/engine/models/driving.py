"""A paged decoder driven the way an engine does it, for parity tests."""

from __future__ import annotations

import torch
from torch import Tensor

from lookhear.engine.models.qwen3 import Qwen3Model
from lookhear.engine.paged.blocks import BLOCK_TOKENS, BlockPool
from tests.engine.batches import paged_batch


class Decoder:
    """Texts by name, each with its block table and length; poison wherever it may be."""

    def __init__(self, model: Qwen3Model, *, num_blocks: int = 40, shuffle: int = 0) -> None:
        self.model = model
        self.pool = BlockPool(num_blocks)
        self.cache = model.new_cache(num_blocks)
        for layer in self.cache.layers:
            layer.fill_(torch.nan)
        self.tables: dict[str, list[int]] = {}
        self.lengths: dict[str, int] = {}
        # Blocks that go back in another order: tables are no neat ranges.
        taken = self.pool.allocate(num_blocks - 1)
        assert taken is not None
        generator = torch.Generator().manual_seed(shuffle)
        order = torch.randperm(len(taken), generator=generator).tolist()
        self.pool.release([taken[i] for i in order] if shuffle else taken[::-1])

    def start(self, name: str, digests: list[bytes] | None = None, num_tokens: int = 0) -> int:
        """Returns how many tokens are cached already."""
        self.tables[name] = self.pool.match(digests or [], num_tokens)
        self.lengths[name] = len(self.tables[name]) * BLOCK_TOKENS
        return self.lengths[name]

    def step(self, feed: dict[str, Tensor], *, padding: int = 0) -> dict[str, Tensor]:
        """Feeds tokens (or embeddings) of several texts at once; returns logits of each."""
        for name, tokens in feed.items():
            self.tables.setdefault(name, [])
            self.lengths.setdefault(name, 0)
            wanted = -(-(self.lengths[name] + len(tokens)) // BLOCK_TOKENS)
            more = self.pool.allocate(wanted - len(self.tables[name]))
            assert more is not None
            self.tables[name] += more
        packed = torch.cat(list(feed.values()))
        if padding:
            packed = torch.cat([packed, packed.new_zeros(padding, *packed.shape[1:])])
        counts = [len(tokens) for tokens in feed.values()]
        batch = paged_batch(
            [self.tables[name] for name in feed],
            [self.lengths[name] for name in feed],
            counts,
            num_tokens=len(packed),
        )
        hidden = self.model.forward(packed, batch, self.cache)[: sum(counts)]
        for name, count in zip(feed, counts, strict=True):
            self.lengths[name] += count
        return dict(zip(feed, torch.split(self.model.logits(hidden), counts), strict=True))

    def commit(self, name: str, digests: list[bytes]) -> None:
        """Names the full blocks of a text."""
        for block, digest in zip(self.tables[name], digests, strict=False):
            self.pool.commit(block, digest)

    def finish(self) -> None:
        for table in self.tables.values():
            self.pool.release(table)
        self.pool.check()
