"""The decoder's own keys and values: one fixed row per request, row 0 for what nobody reads."""

from __future__ import annotations

import torch
from torch import Tensor

TRASH_ROW = 0


class SelfCache:
    """Rows of keys and values, allocated whole to a request for its life.

    data: [layers, 2, rows + 1, heads, context, head_dim], keys then values. Row 0 is the trash row:
    padding may write there, nothing real reads it. A freed row keeps its old contents; the reader
    is told by lengths what is real..
    """

    def __init__(
        self,
        layers: int,
        rows: int,
        heads: int,
        context: int,
        head_dim: int,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        assert min(layers, rows, heads, context, head_dim) >= 1
        shape = (layers, 2, rows + 1, heads, context, head_dim)
        self.data: Tensor = torch.zeros(shape, dtype=dtype, device=device)
        self.num_rows = rows
        self.context = context
        self._free = list(range(rows, TRASH_ROW, -1))  # used as a stack: the lowest row first
        self._used: set[int] = set()

    @property
    def num_free(self) -> int:
        return len(self._free)

    def allocate(self) -> int | None:
        """A row that nobody holds, or None if all are taken."""
        if not self._free:
            return None
        row = self._free.pop()
        self._used.add(row)
        return row

    def free(self, row: int) -> None:
        """Gives back a row; freeing one that is not held is our bug."""
        assert row in self._used, f"row {row} is not allocated"
        self._used.remove(row)
        self._free.append(row)

    def check(self) -> None:
        """Every row is either free or used, none both, and the trash row is neither."""
        free = set(self._free)
        assert len(free) == len(self._free), "a row is free twice"
        assert not free & self._used, "a row is free and used"
        assert free | self._used == set(range(1, self.num_rows + 1)), "a row is lost"
