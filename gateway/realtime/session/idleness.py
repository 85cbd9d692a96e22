"""How long a session may say nothing. Pure.

A microphone may be muted and a page may stand open, so those who have spoken are given long. Who
has never sent a message is no client, but a socket that takes somebody's place.
"""

from __future__ import annotations

import math


class Idleness:
    """Of one session. first, usual: seconds for the first message, and later without anything said
    by either side; 0: no limit. now: seconds, monotonic."""

    def __init__(self, first: float, usual: float, now: float) -> None:
        self._first = first
        self._usual = usual
        self._began = now
        self._last: float | None = None  # anything said, since the client's first message

    def heard(self, now: float) -> None:
        """The client sent a message."""
        self._last = now

    def answered(self, now: float) -> None:
        """It was sent something of the engine's."""
        if self._last is not None:
            self._last = now

    def silent_for(self, now: float) -> float:
        """Seconds since it began; 0.0 if the client has ever sent a message."""
        return now - self._began if self._last is None else 0.0

    @property
    def limit(self) -> float:
        """Seconds that hold now; 0: none."""
        return self._first if self._last is None else self._usual

    def left(self, now: float) -> float:
        """Seconds until it has been too long, 0 or less if it has; infinity: it never will."""
        since = self._began if self._last is None else self._last
        return since + self.limit - now if self.limit else math.inf

    def next_look(self, now: float) -> float:
        """Seconds after which to ask again, whatever is said meanwhile; infinity: never."""
        return min(self.left(now), self._usual or math.inf)
