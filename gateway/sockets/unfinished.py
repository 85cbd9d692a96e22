"""Messages of which the end has not come, bounded over all connections. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

UNFINISHED = "too_many_unfinished"


class Holder(Protocol):
    """A connection that holds the beginning of a message."""

    def give_up(self) -> None:
        """Forget it, and close: others need the room."""


class Unfinished:
    """most: bytes, of all. refused: hears why one is turned away."""

    def __init__(self, most: int, refused: Callable[[str], None]) -> None:
        self.total = 0
        self._most = most
        self._refused = refused
        self._held: dict[Holder, int] = {}

    def holds(self, holder: Holder, size: int) -> None:
        """It holds so many bytes now. Where all hold too many, whoever holds most gives up."""
        self.total += size - self._held.pop(holder, 0)
        if size:
            self._held[holder] = size
        while self.total > self._most:
            largest = max(self._held, key=self._held.__getitem__)
            self.total -= self._held.pop(largest)
            self._refused(UNFINISHED)
            largest.give_up()
