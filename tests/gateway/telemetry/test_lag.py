"""The lag of the event loop, on a loop whose time is the test's."""

from __future__ import annotations

import asyncio
import time

from lookhear.gateway.telemetry.lag import LoopLag


async def test_a_loop_that_stood_still_counts_for_every_moment_of_it() -> None:
    seen: list[float] = []
    lag = LoopLag(seen.append, 0.01)
    lag.start()
    time.sleep(0.1)  # the event loop stands still
    while not seen:
        await asyncio.sleep(0)
    lag.stop()
    assert len(seen) >= 9
    assert max(seen) >= 0.08 and seen == sorted(seen, reverse=True)
