"""What a tick costs the engine, alone and together with others: measured, robust, pure.

Ticks that are worked on together share what a step costs however many it serves. So the cost of one
of n is taken to be `each + shared / n` seconds, and n speakers are served in `n * each + shared`.
Both numbers are fitted to the ticks of the last minute. Where those were all of one n, they cannot
tell the two apart; then the engine's rehearsal before it was ready decides, scaled to what was
measured since.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, field

MEMORY_SECONDS = 60.0  # of listening, after which a tick counts by a third
LONGEST_GAP = 1.0  # seconds that the time between two ticks counts at most: who is idle forgets not
REHEARSED_TICKS = 4.0  # as many measured ones weigh as much as each half of the rehearsal
WORST = 4.0  # times the expected cost that one tick counts at most: a hiccup is not the rule


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds. each: of every tick. shared: of all that are worked on together."""

    each: float
    shared: float

    def of_one(self, together: float) -> float:
        """Of one of several ticks that are worked on together."""
        return self.each + self.shared / together


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """Seconds of a tick alone, and of each of `crowd` ticks together."""

    alone: float
    crowded: float
    crowd: int

    @property
    def cost(self) -> Cost:
        """A straight line through both; neither part is negative."""
        shared = (self.alone - self.crowded) / (1 - 1 / self.crowd)
        shared = min(max(0.0, shared), self.alone)
        return Cost(self.alone - shared, shared)


@dataclass(slots=True)
class _Tick:
    """One under way. steps: in which it took part. together: ticks in those, added up."""

    seconds: float = 0.0
    steps: int = 0
    together: int = 0
    is_mixed: bool = False  # a file took part


@dataclass(slots=True)
class _Sums:
    """Of ticks, weighted: x is 1 / n, y the cost, r what the rehearsal says of x."""

    w: float = 0.0
    x: float = 0.0
    xx: float = 0.0
    y: float = 0.0
    xy: float = 0.0
    r: float = 0.0

    def add(self, x: float, y: float, r: float, weight: float = 1.0) -> None:
        self.w += weight
        self.x += weight * x
        self.xx += weight * x * x
        self.y += weight * y
        self.xy += weight * x * y
        self.r += weight * r

    def fade(self, share: float) -> None:
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) * share)


@dataclass(slots=True)
class TickCost:
    """What was measured so far. Time is the caller's, in seconds."""

    _rehearsal: Rehearsal | None = None
    _sums: _Sums = field(default_factory=_Sums)
    _running: dict[str, _Tick] = field(default_factory=dict)
    _last: float = 0.0  # when a tick was done
    _cost: Cost | None = None

    def rehearsed(self, rehearsal: Rehearsal) -> None:
        """Before the first speaker; what came before is forgotten."""
        self._rehearsal, self._sums, self._cost = rehearsal, _Sums(), None
        self._running.clear()

    @property
    def cost(self) -> Cost | None:
        """None while nothing is known."""
        if self._cost is None:
            self._cost = self._fit()
        return self._cost

    def step(
        self,
        live: Collection[str],
        done: Collection[str],
        *,
        mixed: bool,
        seconds: float,
        now: float,
    ) -> None:
        """A step that took so long. live: whose ticks were under way in it. done: those of them
        that it finished. mixed: a file took part; how long ticks take beside it says little of how
        long they take, and files are let in by other rules."""
        ticks, self._running = self._running, {}
        for key in live:
            tick = ticks.get(key) or _Tick()
            tick.seconds += seconds / len(live)
            tick.steps += 1
            tick.together += len(live)
            tick.is_mixed |= mixed
            if key not in done:
                self._running[key] = tick
            elif not tick.is_mixed:
                self._observe(tick.together / tick.steps, tick.seconds, now)

    def _observe(self, together: float, seconds: float, now: float) -> None:
        known = self.cost
        if known is not None:
            seconds = min(seconds, WORST * known.of_one(together))
        gap = min(max(0.0, now - self._last), LONGEST_GAP) if self._sums.w else 0.0
        self._sums.fade(math.exp(-gap / MEMORY_SECONDS))
        said = self._rehearsal.cost.of_one(together) if self._rehearsal is not None else 0.0
        self._sums.add(1 / together, seconds, said)
        self._last, self._cost = now, None

    def _fit(self) -> Cost | None:
        """Least squares. The rehearsal takes part as some ticks of either kind, at the speed that
        was measured since."""
        sums, rehearsal = self._sums, self._rehearsal
        if rehearsal is None and not sums.w:
            return None
        all_sums = _Sums(sums.w, sums.x, sums.xx, sums.y, sums.xy, sums.r)
        if rehearsal is not None:
            line = rehearsal.cost
            kinds = ((1.0, line.of_one(1)), (1 / rehearsal.crowd, line.of_one(rehearsal.crowd)))
            weight = REHEARSED_TICKS
            said = weight * sum(cost for _, cost in kinds)
            speed = (sums.y + said) / (sums.r + said) if sums.r + said else 1.0
            for x, cost in kinds:
                all_sums.add(x, speed * cost, cost, weight)
        return _line(all_sums)


def _line(sums: _Sums) -> Cost:
    """The straight line of the least squares, with neither part negative."""
    mean = sums.y / sums.w
    spread = sums.xx - sums.x * sums.x / sums.w
    if spread <= 1e-9 * sums.w:  # all of one kind: nobody knows what is shared
        return Cost(mean, 0.0)
    shared = (sums.xy - sums.x * sums.y / sums.w) / spread
    if shared <= 0:
        return Cost(mean, 0.0)
    each = mean - shared * sums.x / sums.w
    return Cost(each, shared) if each >= 0 else Cost(0.0, sums.xy / sums.xx)
