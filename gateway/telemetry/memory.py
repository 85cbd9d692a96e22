"""Memory that large requests took goes back to the system.

The C library keeps what was freed for the next request that needs as much. On a gateway that may
be days away, so a while after a large one it is told to keep nothing.
"""

from __future__ import annotations

import asyncio
import ctypes
import sys
from collections.abc import Callable
from functools import cache

LARGE = 4 * 1024 * 1024  # bytes freed, since the last time: less is not worth a walk over the heap
WHILE = 2.0  # seconds: who sends one large request often sends more
EVERY = 30.0  # seconds at least from one time to the next: cameras send much all the time


class Memory:
    """trim: gives free memory back; it is called in a thread, for it may take milliseconds."""

    def __init__(self, trim: Callable[[], None] | None = None) -> None:
        self._trim = trim or give_back
        self._freed = 0
        self._timer: asyncio.TimerHandle | None = None
        self._earliest = 0.0  # on the loop's clock

    def freed(self, size: int) -> None:
        """So many bytes were freed just now, or are about to be. On the event loop."""
        self._freed += size
        if self._freed >= LARGE and self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_at(max(loop.time() + WHILE, self._earliest), self._due)

    def close(self) -> None:
        """Nothing is to be done later any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _due(self) -> None:
        loop = asyncio.get_running_loop()
        self._freed, self._timer, self._earliest = 0, None, loop.time() + EVERY
        loop.run_in_executor(None, self._trim)


def give_back() -> None:
    """What is free goes back to the system, where the C library can be told to."""
    trim = _malloc_trim()
    if trim is not None:
        trim(0)


@cache
def _malloc_trim() -> Callable[[int], int] | None:
    if not sys.platform.startswith("linux"):
        return None
    try:
        function = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):  # musl has none
        return None
    function.argtypes, function.restype = [ctypes.c_size_t], ctypes.c_int
    return lambda pad: int(function(pad))
