"""Who may use how much of the event loop. Pure.

One thread reads all sockets and works on what came. Whoever needs little of its time is never kept
waiting. All others share alike in a part of it, and who has had more than that is neither read nor
worked on until its average is back. Who is alone with the loop may have all of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Coroutine, Generator
from types import coroutine
from typing import Any

MEMORY = 1.0  # seconds over which use is averaged
# Of the loop's time. A microphone takes a hundredth.
FREE = 0.05  # each may have it at any time
CROWD = 0.4  # for all together who want more than that: less with what the others take
ALONE = 0.005  # the others together take no more
LONGEST = 1.0  # seconds of one rest


class Shares:
    """clock: seconds, monotonic. processor: seconds that this thread has worked."""

    def __init__(self, clock: Callable[[], float], processor: Callable[[], float]) -> None:
        self.clock = clock
        self.processor = processor
        self._all = _Average()
        self._crowd: set[Share] = set()  # those that had more than FREE when last seen

    def one(self) -> Share:
        """Of a newcomer, who has had nothing."""
        return Share(self)

    def charge(self, share: Share, seconds: float) -> None:
        """It was worked on for so long, just now."""
        now = self.clock()
        self._all.add(seconds, now)
        if share.average.add(seconds, now) > FREE:
            self._crowd.add(share)

    def rest(self, share: Share) -> float:
        """Seconds, `LONGEST` at most, for which that one is to be left alone."""
        if share.average.use <= FREE:  # since then it can only have fallen
            return 0.0
        now = self.clock()
        use = share.average.at(now)
        if use <= FREE:
            return 0.0
        for other in [other for other in self._crowd if other.average.at(now) <= FREE]:
            self._crowd.discard(other)
        everybody = self._all.at(now)
        if everybody - use <= ALONE:
            return 0.0
        modest = everybody - sum(other.average.at(now) for other in self._crowd)
        fair = max(FREE, (CROWD - max(modest, 0.0)) / len(self._crowd))
        if use <= fair:
            return 0.0
        return min(MEMORY * math.log(use / fair), LONGEST)


class Share:
    """Of one connection and what is done for it."""

    def __init__(self, shares: Shares) -> None:
        self.average = _Average()
        self._shares = shares

    def charge(self, seconds: float) -> None:
        """See `Shares.charge`."""
        self._shares.charge(self, seconds)

    def rest(self) -> float:
        """See `Shares.rest`."""
        return self._shares.rest(self)

    async def metered(self, work: Coroutine[object, Any, None]) -> None:
        """Run it; the time in which it does not wait is charged."""
        await _steps(work, self, self._shares.processor)


class _Average:
    """Seconds of use per second, the last ones counting most. use: when something was added last,
    at `when`."""

    def __init__(self) -> None:
        self.use = self.when = 0.0

    def at(self, now: float) -> float:
        return self.use * math.exp((self.when - now) / MEMORY)

    def add(self, seconds: float, now: float) -> float:
        self.use, self.when = self.at(now) + seconds / MEMORY, now
        return self.use


@coroutine
def _steps(
    work: Coroutine[object, Any, None], share: Share, processor: Callable[[], float]
) -> Generator[object, None, None]:
    step: Callable[[Any], object] = work.send
    argument: BaseException | None = None
    while True:
        began = processor()
        try:
            wanted = step(argument)
        except StopIteration:
            return
        finally:
            argument = None  # an error knows this frame: as garbage they would have to be found
            share.charge(processor() - began)
        try:
            yield wanted
        except GeneratorExit:
            work.close()
            raise
        except BaseException as error:
            step, argument = work.throw, error
        else:
            step, argument = work.send, None
