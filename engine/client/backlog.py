"""A queue between two threads that never grows without bounds."""

from __future__ import annotations

import threading
from typing import Generic, TypeVar

T = TypeVar("T")


class Backlog(Generic[T]):
    """Items in order, put by one thread and taken by another.

    limit: of all that waits, in the unit of the weights. When full: wait. Whoever puts waits until
    there is room, or nobody takes any more; a single item always has room, however heavy.
    """

    def __init__(self, limit: int) -> None:
        assert limit >= 1
        self._limit = limit
        self._items: list[T] = []
        self._weight = 0
        self._is_abandoned = False
        self._changed = threading.Condition(threading.Lock())

    def put(self, item: T, weight: int = 1) -> None:
        """Behind all others. Where nobody takes any more, it is dropped."""
        with self._changed:
            while self._items and self._weight + weight > self._limit:
                if self._is_abandoned:
                    return
                self._changed.wait()
            self._items.append(item)
            self._weight += weight
            self._changed.notify_all()

    def take(self, *, wait: bool) -> list[T]:
        """All that is there. wait: until there is something."""
        if not (wait or self._items):
            return []  # mostly; without the lock
        with self._changed:
            while wait and not self._items:
                self._changed.wait()
            items, self._items = self._items, []
            self._weight = 0
            self._changed.notify_all()
            return items

    def abandon(self) -> None:
        """Nobody takes any more: whoever waits for room goes on."""
        with self._changed:
            self._is_abandoned = True
            self._changed.notify_all()
