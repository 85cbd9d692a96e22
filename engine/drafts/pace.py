"""How long the drafts of one request are: as long as pays, by what was right so far. Pure.

A pass that verifies k tokens yields 1 + a + a^2 + ... + a^k tokens where each is right with the
probability a, and takes longer than one that reads a single token. Both are known: a of the
request's own drafts, how long passes take from trials at the start.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

LONGEST = 15  # tokens of a draft; with the token in front of it a pass of 16
# Before anything was verified a draft is thought to be right so often, and this counts as so many
# tokens. It is too much: to find out costs one pass, not to find out costs all of them.
PRIOR, WEIGHT = 0.8, 1.0
KEEP = 0.97  # of what was found out, per step: one text is quoted, the next one is not
MARGIN = 1.05  # times as fast a draft has to make it


@dataclass(frozen=True, slots=True)
class PassCosts:
    """What passes take. sizes: tokens that a pass reads, ascending from 1; seconds: of each. draft:
    of the draft model that guesses, a pass for each token; None: what is guessed costs nothing."""

    sizes: tuple[int, ...] = (1,)
    seconds: tuple[float, ...] = (1.0,)
    draft: PassCosts | None = None

    def of(self, tokens: int) -> float:
        """Of a pass that reads so many, between and beyond those that were tried along a line."""
        sizes, seconds = self.sizes, self.seconds
        if len(sizes) == 1:
            return seconds[0]
        right = min(max(1, bisect_left(sizes, tokens)), len(sizes) - 1)
        low, high = sizes[right - 1], sizes[right]
        slope = (seconds[right] - seconds[right - 1]) / (high - low)
        return max(seconds[right - 1] + slope * (tokens - low), seconds[0])


class Pace:
    """Of one request. costs: None: drafts are always as long as can be."""

    def __init__(self, costs: PassCosts | None) -> None:
        self._costs = costs
        self._right = self._tried = 0.0

    @property
    def likelihood(self) -> float:
        """That a drafted token is right, if those in front of it are."""
        return (self._right + PRIOR * WEIGHT) / (self._tried + WEIGHT)

    def length(self, rows: int) -> int:
        """Tokens of the next draft, 0: none. rows: requests that are decoded together."""
        return LONGEST if self._costs is None else self._best(self._costs, rows)[0]

    def saved(self, rows: int) -> float:
        """Seconds for each token of all rows."""
        if self._costs is None:
            return 0.0
        return max(0.0, self._costs.of(rows) - 1.0 / self._best(self._costs, rows)[1])

    def _best(self, costs: PassCosts, rows: int) -> tuple[int, float]:
        """The length, and tokens of a row in a second."""
        alone = costs.of(rows)
        best, most = 0, MARGIN / alone
        gain, chance = 1.0, self.likelihood
        guessing = 0.0 if costs.draft is None else costs.draft.of(rows)
        for count in range(1, LONGEST + 1):
            gain += chance**count
            rate = gain / (costs.of(rows * (1 + count)) + count * guessing)
            if rate > most:
                best, most = count, rate
        return best, most

    def learn(self, offered: int, accepted: int) -> None:
        """A step is over in which of so many drafted tokens so many were right."""
        self._right, self._tried = self._right * KEEP + accepted, self._tried * KEEP + accepted
        if accepted < offered:
            self._tried += 1
