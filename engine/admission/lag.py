"""How long a word waits to be committed, as far as the load has to do with it. Pure.

A word is committed when it was heard alike during some seconds of audio (the evidence). The first
tick that hears it comes up to one interval after it was said, the one that confirms it up to one
interval after the evidence is there, and that tick takes as long as all that are worked on with
it:

    lag = evidence + U1 * interval + U2 * interval + service,      U1, U2 uniform on 0 to 1
    service(k) = m * each + shared                                 m = together(k), of k speakers
    interval(k) = max(least interval, k * (each + shared / m))

The more are worked on together, the less a tick costs and the longer it takes. Who waits for a turn
loses nothing: a tick hears the audio that is there when it begins. What 95 of 100 words wait for is
1.68 intervals and a service, least where m is the root of 1.68 * k * shared / each.

How many speak at once is not known beforehand: each session does in its own share of the time,
independently of the others. What words cost for their own sake (the model changes its mind) is not
part of it: nobody inside has it worse because of one more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lookhear.engine.admission.tick_cost import Cost

Shares = NDArray[np.float64]  # numbers of 0 to 1

QUANTILE = 0.95  # of words that keep within a lag
INTERVALS = 2 - (2 * (1 - QUANTILE)) ** 0.5  # that U1 + U2 exceeds as seldom: 1.68


def crowds(shares: Sequence[float]) -> Shares:
    """shares: of the time in which each session speaks, 0 to 1. Returns [n + 1]: how likely 0, 1,
    … n of them speak at once."""
    likely = np.zeros(len(shares) + 1)
    likely[0] = 1.0
    for number, share in enumerate(shares, 1):
        likely[1 : number + 1] = likely[1 : number + 1] * (1 - share) + likely[:number] * share
        likely[0] *= 1 - share
    return likely


@dataclass(frozen=True, slots=True)
class LagModel:
    """Seconds. evidence: of audio that a word in doubt wants. interval: between two ticks of a
    speaker at the least. rows: ticks that are worked on together at most. queues: whether no more
    of them are than is best for the lag; else all that are wanted."""

    evidence: float
    interval: float
    rows: int
    queues: bool = False

    def together(self, cost: Cost, speaking: Shares) -> Shares:
        """How many of so many ticks are worked on at once; 1 at least, rounded by who schedules."""
        most: Shares = np.clip(speaking, 1.0, self.rows)
        if not self.queues or cost.shared >= self.rows**2 * cost.each:
            return most
        best: Shares = np.sqrt(INTERVALS * speaking * cost.shared / cost.each)
        return np.clip(best, 1.0, most)

    def late(self, lag: float, cost: Cost, others: Shares, more: int) -> float:
        """The share of words that wait longer than `lag`. others: as `crowds` says. more: speakers
        beside them, one at least, who never pause."""
        speaking = np.arange(more, more + len(others), dtype=float)
        together = self.together(cost, speaking)
        round_seconds = speaking * (cost.each + cost.shared / together)
        # Rows that are all taken are waited for, whoever has them.
        service = together * cost.each + cost.shared if self.queues else round_seconds
        interval = np.maximum(self.interval, round_seconds)
        return float(others @ _exceeds((lag - self.evidence - service) / interval))

    def lag(self, cost: Cost, others: Shares, more: int) -> float:
        """Which 95 of 100 words keep within."""
        crowd = len(others) - 1 + more
        most = crowd * cost.of_one(min(crowd, self.rows))
        low, high = self.evidence, self.evidence + most + 2 * max(self.interval, most)
        for _ in range(40):
            middle = (low + high) / 2
            if self.late(middle, cost, others, more) > 1 - QUANTILE:
                low = middle
            else:
                high = middle
        return high

    def places(self, bound: float, cost: Cost, others: Shares, limit: int) -> int:
        """How many more may begin to speak, and 95 of 100 words still keep within the bound; at
        most `limit`."""
        low, high = 0, limit + 1  # low fits, high does not
        while high - low > 1:
            middle = (low + high) // 2
            if self.late(bound, cost, others, middle) <= 1 - QUANTILE:
                low = middle
            else:
                high = middle
        return low


def _exceeds(intervals: Shares) -> Shares:
    """How likely the sum of two uniform numbers is larger than each of these."""
    t = np.clip(intervals, 0.0, 2.0)
    return np.where(t <= 1, 1 - t * t / 2, (2 - t) ** 2 / 2)
