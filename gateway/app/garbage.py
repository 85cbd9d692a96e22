"""Python's collector of cyclic garbage, told what a gateway is like.

A full collection looks at every object there is: with 300 sessions it holds the event loop for 50
to 100 ms, and by default it comes every few seconds, for messages make objects by the thousand.
Nearly all of them are gone before anybody looks, without a collector. So the young are looked at
less often, what was there before the first session never, and all the rest once a minute.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from contextlib import contextmanager

FULL_EVERY = 60.0  # seconds
# Objects made and not yet gone before the young are looked at; how many such looks before those
# that survived one; and how many of these before all, if the timer should ever not do it.
THRESHOLDS = (20_000, 50, 1000)


@contextmanager
def tended(loop: asyncio.AbstractEventLoop, full_every: float = FULL_EVERY) -> Iterator[None]:
    """For this whole process, while the loop serves; afterwards all is as it was."""
    before = gc.get_threshold()
    timer: asyncio.TimerHandle | None = None

    def collect() -> None:
        nonlocal timer
        gc.collect()
        timer = loop.call_later(full_every, collect)

    collect()
    gc.freeze()  # modules and their like
    gc.set_threshold(*THRESHOLDS)
    try:
        yield
    finally:
        assert timer is not None
        timer.cancel()
        gc.set_threshold(*before)
        gc.unfreeze()
