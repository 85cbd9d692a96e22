"""How long a word waits to be committed, as far as the load has to do with it. Pure.

A word is committed when it was heard alike during some seconds of audio (the evidence). The first
tick that hears it comes up to one interval after it was said, the one that confirms it up to one
interval after the evidence is there, and that tick takes as long as it takes to serve all who
speak:

    lag = evidence + U1 * interval + U2 * interval + service,      U1, U2 uniform on 0 to 1
    service(k) = seconds to serve k speakers once
    interval(k) = max(least interval, service(k))

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
    speaker at the least. rows: ticks that are worked on together at most."""

    evidence: float
    interval: float
    rows: int

    def late(self, lag: float, cost: Cost, others: Shares, more: int) -> float:
        """The share of words that wait longer than `lag`. others: as `crowds` says. more: speakers
        beside them, one at least, who never pause."""
        speaking = np.arange(more, more + len(others))
        service = speaking * (cost.each + cost.shared / np.minimum(speaking, self.rows))
        interval = np.maximum(self.interval, service)
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
