"""The state of running requests in fixed rows, gathered once per step. numpy on the host.

A request keeps its row for life and no row ever moves, so nothing is reordered when others come and
go. What a step needs of the rows is read by one gather, whatever their number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.kv_cache import BLOCK_TOKENS, TRASH

Indices = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Gathered:
    """A `PagedBatch` that is still on the host: the same fields, int64."""

    positions: Indices
    slots: Indices
    block_tables: Indices
    past_lengths: Indices
    query_lengths: Indices


class Rows:
    """max_rows: requests at once. max_blocks: blocks of one request at most."""

    def __init__(self, max_rows: int, max_blocks: int) -> None:
        self.max_rows = max_rows
        self.max_blocks = max_blocks
        self._tables: Indices = np.full((max_rows, max_blocks), TRASH, np.int64)
        self._widths: Indices = np.zeros(max_rows, np.int64)
        self._free = list(range(max_rows - 1, -1, -1))

    @property
    def num_free(self) -> int:
        return len(self._free)

    def allocate(self) -> int:
        """A free row; there must be one."""
        assert self._free, "the scheduler admitted more requests than there are rows"
        return self._free.pop()

    def write(self, row: int, blocks: Sequence[int]) -> None:
        """The block table of a row, whole."""
        self._tables[row, : len(blocks)] = blocks
        self._tables[row, len(blocks) :] = TRASH
        self._widths[row] = len(blocks)

    def free(self, row: int) -> None:
        assert row not in self._free, f"row {row} is free already"
        self.write(row, [])
        self._free.append(row)

    def gather(
        self,
        rows: Sequence[int],
        past: Sequence[int],
        counts: Sequence[int],
        *,
        num_tokens: int | None = None,
        num_rows: int | None = None,
        is_uniform: bool = False,
    ) -> Gathered:
        """The step in which row rows[i] adds counts[i] tokens behind its past[i].

        num_tokens, num_rows: of the step, padding included (default: no padding); padding has
        position 0 and is written to the trash block. With num_rows, tables have all columns.
        is_uniform: rows of padding have a token each, as real ones do; else none.
        """
        which, behind, new = (np.asarray(values, np.int64) for values in (rows, past, counts))
        if max(counts, default=0) == min(counts, default=0) == 1:  # decoding: a third of the time
            owner, positions = np.arange(len(which)), behind
        else:
            owner = np.repeat(np.arange(len(which)), new)
            first = np.cumsum(new) - new
            positions = np.arange(len(owner)) - first[owner] + behind[owner]
        width = self._tables.shape[1]
        if num_rows is None:
            width = int((-(-(behind + new) // BLOCK_TOKENS)).max())
        tables = self._tables[which, :width]
        blocks = tables[owner, positions // BLOCK_TOKENS]
        assert (blocks != TRASH).all(), "a token has no block of its own"
        slots = blocks * BLOCK_TOKENS + positions % BLOCK_TOKENS
        padding = 0 if num_tokens is None else num_tokens - len(slots)
        assert padding >= 0, (num_tokens, len(slots))
        if padding:
            trash = TRASH * BLOCK_TOKENS + np.arange(padding) % BLOCK_TOKENS
            slots, positions = np.append(slots, trash), np.append(positions, np.zeros_like(trash))
        more = 0 if num_rows is None else num_rows - len(which)
        assert more >= 0, (num_rows, len(which))
        if more:
            tables = np.concatenate([tables, np.full((more, width), TRASH, np.int64)])
            behind = np.append(behind, np.zeros(more, np.int64))
            new = np.append(new, np.full(more, int(is_uniform), np.int64))
        return Gathered(positions, slots, tables, behind, new)

    def check(self) -> None:
        """Raise AssertionError if an invariant is broken."""
        assert len(set(self._free)) == len(self._free)
        assert all(self._widths[row] == 0 for row in self._free)
