"""The graph layer, eager: every pass goes through, and is counted by its kind."""

from __future__ import annotations

import torch
from torch import Tensor

from engine.graphs import Added, Graphs
from engine.paged_cache import PagedBatch, PagedCache, paged_batch


class Echo:
    def forward(
        self, inputs: Tensor, batch: PagedBatch, cache: PagedCache, added: Added | None = None
    ) -> Tensor:
        cache.layers[0][0, 0, 0, 0, 0] += 1
        return inputs * 2


def test_passes_are_carried_out_on_the_one_cache_and_counted() -> None:
    cache = PagedCache(1, 2, 1, 2)
    graphs = Graphs(Echo(), cache)
    batch = paged_batch([[1]], [0], [2])
    assert graphs.run("prefill", torch.tensor([3, 4]), batch).tolist() == [6, 8]
    graphs.run("decode", torch.tensor([5]), batch)
    graphs.run("decode", torch.tensor([5]), batch)
    assert graphs.num_runs == {"prefill eager": 1, "decode eager": 2}
    assert float(cache.layers[0][0, 0, 0, 0, 0]) == 3
