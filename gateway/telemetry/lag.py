"""How late the event loop is: what a session waits when others keep the gateway busy."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable


class LoopLag:
    """Calls `observe` with the seconds by which a timer was late, once for each moment of a fixed
    grid. So a loop that stood still for many moments counts for all of them: an average over fewer
    samples would forgive exactly the worst.

    interval: seconds between two moments. The clock is not the loop's own: uvloop's stands still
    while callbacks run, which is just what is to be seen.
    """

    def __init__(self, observe: Callable[[float], object], interval: float) -> None:
        self._observe = observe
        self._interval = interval
        self._due = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """On the running event loop."""
        self._loop = asyncio.get_running_loop()
        self._due = time.monotonic() + self._interval
        self._timer = self._loop.call_later(self._interval, self._tick)

    def stop(self) -> None:
        """No more calls."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _tick(self) -> None:
        now = time.monotonic()
        while self._due <= now:
            self._observe(now - self._due)
            self._due += self._interval
        self._timer = self._loop.call_later(self._due - now, self._tick)
