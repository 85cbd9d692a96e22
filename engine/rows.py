"""The state of running requests in fixed rows, gathered once per step. numpy on the host.

A request keeps its row for life and no row ever moves, so nothing is reordered when others come and
go. What a step needs of the rows is read by one gather, whatever their number.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from engine.kv_cache import BLOCK_TOKENS, TRASH
from engine.paged_cache import PagedBatch

Indices = NDArray[np.int64]


class Rows:
    """max_rows: requests at once. max_blocks: blocks of one request at most."""

    def __init__(self, max_rows: int, max_blocks: int) -> None:
        self.max_rows = max_rows
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
        device: torch.device | str = "cpu",
        *,
        num_tokens: int | None = None,
    ) -> PagedBatch:
        """The batch in which row rows[i] adds counts[i] tokens behind its past[i].

        num_tokens: of the step, padding included (default: no padding); padding has position 0 and
        is written to the trash block.
        """
        which, behind, new = (np.asarray(values, np.int64) for values in (rows, past, counts))
        owner = np.repeat(np.arange(len(which)), new)
        first = np.cumsum(new) - new
        positions = np.arange(len(owner)) - first[owner] + behind[owner]
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

        def put(values: Indices) -> torch.Tensor:
            return torch.from_numpy(np.ascontiguousarray(values)).to(device)

        return PagedBatch(put(positions), put(slots), put(tables), put(behind), put(new))

    def check(self) -> None:
        """Raise AssertionError if an invariant is broken."""
        assert len(set(self._free)) == len(self._free)
        assert all(self._widths[row] == 0 for row in self._free)
