"""Python's collector of cyclic garbage, told what a gateway is like.

A full collection looks at every object there is: with 300 sessions it holds the event loop for 50
to 100 ms, and by default it comes every few seconds, for messages make objects by the thousand.
Nearly all of them are gone before anybody looks, without a collector. So the young are looked at
less often, what was there before the first session never, and all the rest once a minute. Where
that finds much, as after a flood of connections, its memory goes back to the system.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from lookhear.gateway.telemetry.memory import give_back

FULL_EVERY = 60.0  # seconds
# Objects made and not yet gone before the young are looked at; how many such looks before those
# that survived one; and how many of these before all, if the timer should ever not do it.
THRESHOLDS = (20_000, 50, 1000)
MUCH = 20_000  # objects: some megabytes


@contextmanager
def tended(
    loop: asyncio.AbstractEventLoop,
    full_every: float = FULL_EVERY,
    trim: Callable[[], object] = give_back,
) -> Iterator[None]:
    """For this whole process, while the loop serves; afterwards all is as it was. trim: gives free
    memory back to the system; called in a thread."""
    before, had_frozen = gc.get_threshold(), gc.get_freeze_count() > 0
    timer: asyncio.TimerHandle

    def collect() -> None:
        nonlocal timer
        if gc.collect() >= MUCH:
            loop.run_in_executor(None, trim)
        timer = loop.call_later(full_every, collect)

    gc.collect()
    timer = loop.call_later(full_every, collect)
    gc.freeze()  # modules and their like
    gc.set_threshold(*THRESHOLDS)
    try:
        yield
    finally:
        timer.cancel()
        gc.set_threshold(*before)
        if not had_frozen:
            gc.unfreeze()
