"""Blocks of a paged cache for what streams without an end: those behind a window are given back.
Pure: no tensors.

             gone          first        past
    |- - - - - - - - - - - |------------|--- new ---|
                           blocks[0]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lookhear.engine.core.request import RequestError
from lookhear.engine.paged.blocks import BLOCK_TOKENS, TRASH, BlockPool

Indices = NDArray[np.int64]


@dataclass(eq=False, slots=True)
class Window:
    """Of one recording. past: tokens in the cache, those that are gone included. first: the first
    that is not gone."""

    past: int = 0
    first: int = 0
    blocks: list[int] = field(default_factory=list)


class Placed(NamedTuple):
    """Where new tokens of several recordings belong: a `PagedBatch` that is still on the host, its
    fields in the same order."""

    positions: Indices
    slots: Indices
    block_tables: Indices
    past_lengths: Indices
    query_lengths: Indices


class Windows:
    """size: tokens that one sees. Where blocks run out, whoever holds the most gives up its oldest:
    it forgets sooner, but everybody goes on."""

    def __init__(self, num_blocks: int, size: int) -> None:
        self.size = size
        self._pool = BlockPool(num_blocks)
        self._open: dict[int, Window] = {}
        self.num_forgotten = 0  # blocks that were given up too soon

    def begin(self) -> Window:
        """Of a new recording."""
        window = Window()
        self._open[id(window)] = window
        return window

    def end(self, window: Window) -> None:
        """The recording is over; idempotent."""
        if self._open.pop(id(window), None) is not None:
            self._pool.release(window.blocks)
            window.blocks = []

    @property
    def num_held(self) -> int:
        """Blocks of all recordings."""
        return sum(len(window.blocks) for window in self._open.values())

    def place(self, work: Sequence[tuple[Window, int]]) -> Placed:
        """Room for new tokens, so many of each. Until `move` is called nothing has changed for
        who asks again. Raises `RequestError` if there is none."""
        for window, count in work:
            self._grow(window, count)
        tables = [window.blocks for window, _ in work]
        width = max(map(len, tables))
        filled = np.full((len(tables), width), TRASH, np.int64)
        positions, slots = [], []
        for row, (window, count) in enumerate(work):
            filled[row, : len(window.blocks)] = window.blocks
            new = np.arange(window.past, window.past + count)
            inside = new - window.first
            positions.append(new)
            slots.append(filled[row][inside // BLOCK_TOKENS] * BLOCK_TOKENS + inside % BLOCK_TOKENS)
        return Placed(
            np.concatenate(positions),
            np.concatenate(slots),
            filled,
            np.array([window.past - window.first for window, _ in work], np.int64),
            np.array([count for _, count in work], np.int64),
        )

    def move(self, work: Sequence[tuple[Window, int]]) -> None:
        """The tokens are in the cache: what the next one cannot see goes."""
        for window, count in work:
            window.past += count
            gone = max(0, window.past + 1 - self.size - window.first) // BLOCK_TOKENS
            self._forget(window, min(gone, len(window.blocks)))

    def _grow(self, window: Window, count: int) -> None:
        wanted = -(-(window.past - window.first + count) // BLOCK_TOKENS) - len(window.blocks)
        if wanted <= 0:
            return
        while self._pool.available() < wanted:
            # A block of what is placed now stays.
            full = [w for w in self._open.values() if w.past - w.first >= BLOCK_TOKENS]
            if not full:
                raise RequestError("out_of_memory", "the cache has no room for what is heard")
            longest = max(full, key=lambda one: len(one.blocks))
            self._forget(longest, 1)
            self.num_forgotten += 1
        blocks = self._pool.allocate(wanted)
        assert blocks is not None
        window.blocks += blocks

    def _forget(self, window: Window, count: int) -> None:
        if count:
            self._pool.release(window.blocks[:count])
            del window.blocks[:count]
            window.first += count * BLOCK_TOKENS

    def check(self) -> None:
        """Raise AssertionError if a block is lost."""
        self._pool.check()
        held = [block for window in self._open.values() for block in window.blocks]
        assert len(held) == len(set(held)) == self._pool.num_blocks - 1 - self._pool.num_free
        for window in self._open.values():
            assert len(window.blocks) >= -(-(window.past - window.first) // BLOCK_TOKENS)
