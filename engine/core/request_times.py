"""How long requests wait until they are begun, and how long they take from there. Pure: the clock
comes from outside.

A request is waited for from the moment at which its owner wanted one, by what had been taken from
the inbox by then. Who is overtaken by newer audio while it waits goes on waiting.
"""

from __future__ import annotations

from collections.abc import Callable


class RequestTimes:
    """Of one engine, by the key of the owner, which has at most one request. clock: seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._wanted: dict[str, float] = {}
        self._begun: dict[str, tuple[float, float]] = {}  # how long it waited, when it began

    def __len__(self) -> int:
        return len(self._wanted) + len(self._begun)

    def wanted(self, key: str) -> None:
        """The owner wants a request; idempotent until that begins."""
        self._wanted.setdefault(key, self._clock())

    def begun(self, key: str) -> None:
        """It was admitted."""
        now = self._clock()
        self._begun[key] = (now - self._wanted.pop(key, now), now)

    def ended(self, key: str) -> tuple[float, float]:
        """Its result is there. Returns the seconds that it waited, and that it took."""
        waited, began = self._begun.pop(key)
        return waited, self._clock() - began

    def forget(self, key: str) -> None:
        """The owner wants nothing any more, or is gone. Idempotent."""
        self._wanted.pop(key, None)
        self._begun.pop(key, None)
