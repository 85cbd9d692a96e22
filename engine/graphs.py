"""How a decoder pass is carried out: eager here; captured CUDA graphs take this place on a GPU.

The interface is the final one: whoever runs a step says what kind it is, and takes the result
before the next call, because a graph answers into memory that it will use again.
"""

from __future__ import annotations

from collections import Counter
from typing import Protocol

from torch import Tensor

from engine.paged_cache import PagedBatch, PagedCache

Added = tuple[Tensor, Tensor]  # places [k], rows [k, n * width]: see `Qwen3Model.forward`


class Decoder(Protocol):
    def forward(
        self, inputs: Tensor, batch: PagedBatch, cache: PagedCache, added: Added | None = None
    ) -> Tensor: ...


class Graphs:
    """Runs decoder passes over one cache. num_runs: passes by kind ("decode": a token per row,
    "prefill": anything else) and by how they were carried out, for the metrics."""

    def __init__(self, decoder: Decoder, cache: PagedCache) -> None:
        self._decoder = decoder
        self._cache = cache
        self.num_runs: Counter[str] = Counter()

    def run(
        self, kind: str, inputs: Tensor, batch: PagedBatch, added: Added | None = None
    ) -> Tensor:
        """inputs: [tokens] ids or [tokens, width] embeddings. added: what media add inside, in a
        prefill only. Returns hidden [tokens, width]."""
        self.num_runs[f"{kind} eager"] += 1
        return self._decoder.forward(inputs, batch, self._cache, added)
