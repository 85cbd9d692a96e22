"""Queues between a session's tasks, bounded by bytes rather than by number."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")

BATCH = 4 * 1024 * 1024  # bytes taken at once


class ByteQueue(Generic[T]):
    """First in, first out; one taker. `size` is the sum of the sizes that are waiting. What happens
    when it is `full` is its owner's to say: the inbox is not filled, the outbox is given up."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.size = 0
        self._items: deque[tuple[T, int]] = deque()
        self._filled = asyncio.Event()
        self._drained = asyncio.Event()
        self._drained.set()

    def put(self, item: T, size: int) -> None:
        """Always accepted; ask `full` or wait for `room` before."""
        self._items.append((item, size))
        self.size += size
        self._filled.set()
        if self.full:
            self._drained.clear()

    @property
    def full(self) -> bool:
        """Whether as much as the limit is waiting."""
        return self.size >= self.limit

    async def room(self) -> None:
        """Returns when less than `limit` is waiting."""
        await self._drained.wait()

    async def take(self, most: int) -> list[T]:
        """At least one item; more while they stay within `most` bytes together."""
        await self._filled.wait()
        taken: list[T] = []
        total = 0
        while self._items and (not taken or total + self._items[0][1] <= most):
            item, size = self._items.popleft()
            taken.append(item)
            total += size
        self.size -= total
        if not self._items:
            self._filled.clear()
        if not self.full:
            self._drained.set()
        return taken
