"""Python's collector of cyclic garbage, told what an engine is like.

By default it looks at all objects whenever a quarter more have come. With 800 sessions there are
hundreds of thousands, and every such look holds the device up for some ten milliseconds. Nearly
nothing here is a cycle. So what was loaded is never looked at again, the young seldom, and all when
there is nothing to do, or once a minute.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

IDLE_EVERY, BUSY_EVERY = 5.0, 60.0  # seconds between two looks at all
# Objects made and not yet gone before the young are looked at; how many such looks before those
# that survived one; and how many of these before all.
THRESHOLDS = (20_000, 50, 1000)


@contextmanager
def unlooked_at() -> Iterator[None]:
    """While modules are loaded: they stay, and are never looked at again."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.freeze()


@contextmanager
def tended(now: float) -> Iterator[Callable[[float, bool], None]]:
    """For this process, while the engine serves; afterwards all is as it was. Gives what is to be
    called between steps: with the time, in seconds, and whether there is nothing to do."""
    before, had_frozen = gc.get_threshold(), gc.get_freeze_count() > 0
    last = now

    def tend(now: float, is_idle: bool) -> None:
        nonlocal last
        if now - last >= (IDLE_EVERY if is_idle else BUSY_EVERY):
            gc.collect()
            last = now

    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
    try:
        yield tend
    finally:
        gc.set_threshold(*before)
        if not had_frozen:
            gc.unfreeze()
