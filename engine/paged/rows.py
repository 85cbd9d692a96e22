"""The state of running requests in fixed rows, gathered once per step. numpy on the host.

A request keeps its row for life and no row ever moves, so nothing is reordered when others come and
go. What a step needs of the rows is read by one gather, whatever their number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lookhear.engine.core.free_list import FreeList
from lookhear.engine.paged.blocks import BLOCK_TOKENS, TRASH

Indices = NDArray[np.int64]


class Gathered(NamedTuple):
    """A `PagedBatch` that is still on the host: the same fields, int64. rows: whose tables these
    are; of a padded step, for which the device has a copy of all tables, there is nothing else."""

    positions: Indices
    slots: Indices
    rows: Indices
    block_tables: Indices | None
    past_lengths: Indices
    query_lengths: Indices


class Rows(FreeList):
    """max_rows: requests at once. max_blocks: blocks of one request at most."""

    def __init__(self, max_rows: int, max_blocks: int) -> None:
        super().__init__(max_rows, first=0, what="row")
        self.max_rows = max_rows
        self.max_blocks = max_blocks
        self._tables: Indices = np.full((max_rows, max_blocks), TRASH, np.int64)
        self._widths = [0] * max_rows  # behind these there never was a block
        self._written: dict[int, None] = {}  # rows, since `changes` was asked

    def allocate(self) -> int:
        """A free row; there must be one."""
        row = super().allocate()
        assert row is not None, "the scheduler admitted more requests than there are rows"
        return row

    def write(self, row: int, blocks: Sequence[int]) -> None:
        """The block table of a row, whole."""
        count, table = len(blocks), self._tables[row]
        table[:count] = blocks
        if count < self._widths[row]:  # as wide as it ever was
            table[count : self._widths[row]] = TRASH
        else:
            self._widths[row] = count
        self._written[row] = None

    def changes(self) -> tuple[Indices, Indices] | None:
        """Rows that were written since the last call, [n], and their tables, [n, max_blocks]; None:
        there are none. Whoever keeps a copy has to take them in order."""
        if not self._written:
            return None
        rows = np.fromiter(self._written, np.int64, len(self._written))
        self._written.clear()
        return rows, self._tables[rows]

    def free(self, place: int) -> None:
        """Gives back a row. Its table is nobody's until another request writes its own."""
        super().free(place)

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
        position 0 and is written to the trash block. With num_rows there are rows instead of
        tables, those of padding max_rows.
        is_uniform: rows of padding have a token each, as real ones do; else none.
        """
        which, behind, new = (np.asarray(values, np.int64) for values in (rows, past, counts))
        if max(counts, default=0) == min(counts, default=0) == 1:  # decoding: a third of the time
            positions = behind
            blocks = self._tables[which, positions // BLOCK_TOKENS]
        else:
            owner = np.repeat(np.arange(len(which)), new)
            first = np.cumsum(new) - new
            positions = np.arange(len(owner)) - first[owner] + behind[owner]
            blocks = self._tables[which[owner], positions // BLOCK_TOKENS]
        assert np.count_nonzero(blocks) == len(blocks), "a token has no block of its own"
        slots = blocks * BLOCK_TOKENS + positions % BLOCK_TOKENS
        count = len(slots) if num_tokens is None else num_tokens
        assert count >= len(slots), (num_tokens, len(slots))
        if count > len(slots):
            trash = np.arange(count - len(slots)) % BLOCK_TOKENS  # TRASH is block 0
            slots, positions = np.concatenate([slots, trash]), _padded(positions, count)
        if num_rows is None:
            width = int((-(-(behind + new) // BLOCK_TOKENS)).max())
            return Gathered(positions, slots, which, self._tables[which, :width], behind, new)
        assert num_rows >= len(which), (num_rows, len(which))
        if num_rows > len(which):
            which, behind = _padded(which, num_rows, self.max_rows), _padded(behind, num_rows)
            new = _padded(new, num_rows, int(is_uniform))
        return Gathered(positions, slots, which, None, behind, new)

    def check(self) -> None:
        """Raise AssertionError if a row is lost."""
        super().check()


def _padded(values: Indices, count: int, value: int = 0) -> Indices:
    """values: [n, ...] -> [count, ...]."""
    padded = np.full((count, *values.shape[1:]), value, np.int64)
    padded[: len(values)] = values
    return padded
