"""How many engines a model is to have, by what they say of their lag. Pure.

An engine more is begun while there is still room: a start takes longer than people wait. One less
is enough when the others would hold all who speak and have room to spare, for a minute; what is
spared is more than what makes one begin, so a constant load changes nothing twice.
"""

from __future__ import annotations

from lookhear.engine.messages import LiveLoad

FEW, FEW_SECONDS = 0.1, 2.0  # share of places free below which there is one more, and for how long
SPARE, SPARE_SECONDS = 0.3, 60.0  # share that the others would have free, so that one may end


class Scaling:
    """least, most: engines."""

    def __init__(self, least: int, most: int) -> None:
        self.least, self.most = least, most
        self._few_since: float | None = None
        self._spare_since: float | None = None

    def change(self, now: float, load: LiveLoad | None, up: int, starting: int) -> int:
        """By how many engines there are to be more, or fewer: -1, 0 or 1. now: seconds. load: of
        those that are up together; None: nobody's lag is bounded, nothing is known. up, starting:
        engines that are to stay."""
        count = up + starting
        if count < self.least:
            return 1
        if load is None or not up:
            self._few_since = self._spare_since = None
            return 0
        all_places = load.speakers + load.places
        is_few = load.places < max(1.0, FEW * all_places)
        others = all_places * (count - 1) / up  # as much as those that are up, each
        is_spare = load.speakers <= (1 - SPARE) * others
        self._few_since = _since(self._few_since, now, is_few)
        self._spare_since = _since(self._spare_since, now, is_spare)
        if count < self.most and not starting and _lasts(self._few_since, now, FEW_SECONDS):
            self._few_since = None
            return 1
        if count > self.least and _lasts(self._spare_since, now, SPARE_SECONDS):
            self._spare_since = None
            return -1
        return 0


def _since(before: float | None, now: float, holds: bool) -> float | None:
    if not holds:
        return None
    return now if before is None else before


def _lasts(since: float | None, now: float, seconds: float) -> bool:
    return since is not None and now - since >= seconds
