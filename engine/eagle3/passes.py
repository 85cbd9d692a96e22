"""Passes of an EAGLE3 head over the blocks of the running requests.

Features lie in the large model's cache, at the place of their token: its passes write them there
with keys and values, so those of a prefix that is found in the cache are found with it. Behind what
is known, the head puts what it thinks that features would be, and goes on with that; when the large
model verifies the guess, it writes the true ones over them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from torch import Tensor

from lookhear.engine.device.acceleration import Acceleration
from lookhear.engine.eagle3.head import Eagle3Head
from lookhear.engine.paged.cache import PagedBatch, PagedCache
from lookhear.engine.paged.draft_model import Feed
from lookhear.engine.paged.passes import PREFILL_MULTIPLE, PagedLogits
from lookhear.engine.paged.rows import Indices, Rows


class HeadPasses:
    """See `DraftNetwork`. cache: the large model's, which has features; rows: the runner's."""

    ahead = 1

    def __init__(self, head: Eagle3Head, cache: PagedCache, rows: Rows) -> None:
        assert cache.features is not None
        self.vocab = head.vocab
        self.device = head.device
        self._head = head
        self._features: Tensor = cache.features
        self._cache = head.new_cache(cache.num_blocks)
        self._rows = rows
        # Eager, as those of a small model are. What is larger than this goes over by itself.
        acceleration = Acceleration.on(head.device, graphs=False)
        capacity = (rows.max_blocks + 16) * rows.max_rows + 4096
        self._staging = acceleration.new_graphs(capacity).staging

    def run(self, work: Sequence[tuple[Feed, int]], wanted: Sequence[int]) -> PagedLogits:
        """See `DraftNetwork`."""
        integers, is_decode = self._integers(work, wanted)
        fields = self._staging.put(integers)
        batch = PagedBatch(
            fields["positions"],
            fields["slots"],
            fields["tables"],
            fields["past"],
            fields["new"],
            is_decode,
        )
        features = self._features[fields["slots"]]
        hidden = self._head.forward(fields["tokens"], features, batch, self._cache)
        ends = hidden[fields["ends"]]
        # Who goes on finds there what the feature of the next place is thought to be.
        self._features.index_copy_(0, fields["behind"], ends)
        return PagedLogits(self._head.logits(ends))

    def _integers(
        self, work: Sequence[tuple[Feed, int]], wanted: Sequence[int]
    ) -> tuple[dict[str, Indices], bool]:
        """Of a pass, and whether every row has one token in it."""
        feeds, counts = [feed for feed, _ in work], [count for _, count in work]
        tokens = [token for feed, count in work for token in feed.queries(count)]
        is_decode = max(counts) == 1
        size = len(tokens)
        if size > PREFILL_MULTIPLE and not is_decode:
            size += -size % PREFILL_MULTIPLE
        gathered = self._rows.gather(
            [feed.row for feed in feeds],
            [feed.fed for feed in feeds],
            counts,
            num_tokens=size,
        )
        assert gathered.block_tables is not None
        last = np.cumsum(counts) - 1
        ending = [i for i, number in enumerate(wanted) if number]
        behind = np.zeros(0, np.int64)
        if ending:
            behind = self._rows.gather(
                [feeds[i].row for i in ending],
                [feeds[i].fed + counts[i] for i in ending],
                [1] * len(ending),
            ).slots
        integers = {
            "tokens": np.array(tokens + [0] * (size - len(tokens)), np.int64),
            "positions": self._positions(work, gathered.positions),
            "slots": gathered.slots,
            "tables": gathered.block_tables,
            "past": gathered.past_lengths,
            "new": gathered.query_lengths,
            "ends": last[ending],
            "behind": behind,
        }
        return integers, is_decode

    def _positions(self, work: Sequence[tuple[Feed, int]], places: Indices) -> Indices:
        """M-RoPE's of a head that has it; else the places."""
        if self._head.dims.rope_sections is None:
            return places
        axes = np.repeat(places[None], 3, axis=0)
        base = 0
        for feed, count in work:
            known = feed.reader.sequence.positions
            if known is not None:
                axes[:, base : base + count] = known.read(feed.fed, feed.fed + count)
            base += count
        return axes
