"""How long the drafts of one request are: as long as pays, by what was right so far. Pure.

A pass that verifies k tokens yields 1 + a + a^2 + ... + a^k tokens where each is right with the
probability a, and takes longer than one that reads a single token. Both are known: a of the
request's own drafts, how long passes take from trials at the start.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass

LONGEST = 15  # tokens of a draft; with the token in front of it a pass of 16
# Before anything was verified a draft is thought to be right so often, and this counts as so many
# tokens. It is too much: to find out costs one pass, not to find out costs all of them.
PRIOR, WEIGHT = 0.8, 1.0
KEEP = 0.97  # of what was found out, per step: one text is quoted, the next one is not
REMEMBER = 0.99  # of what earlier requests found out, per request
KEEP_OF_ALL = 0.9  # of it, per step of any request with a draft
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


class Experience:
    """What the drafts of one draft model were worth: a model that is seldom right for one request
    is so for the next one, too, which need not find it out again."""

    def __init__(self) -> None:
        self._right = self._tried = 0.0

    def prior(self) -> float:
        """That the first token of another request's draft is right. Forgets a little, so that a
        model that was wrong is asked again once in some twenty requests."""
        self._right, self._tried = self._right * REMEMBER, self._tried * REMEMBER
        return _share(self._right, self._tried, PRIOR)

    def learn(self, offered: int, accepted: int) -> None:
        """See `Pace.learn`."""
        if offered:
            self._right, self._tried = _learnt(
                self._right, self._tried, offered, accepted, KEEP_OF_ALL
            )


class Pace:
    """Of one request. costs: None: drafts are always as long as can be. experience: of whoever
    guesses, if that is what decides how often it is right; None: the text is."""

    def __init__(self, costs: PassCosts | None, experience: Experience | None = None) -> None:
        self._costs = costs
        self._experience = experience
        self._prior = PRIOR if experience is None else experience.prior()
        self._right = self._tried = 0.0

    @property
    def likelihood(self) -> float:
        """That a drafted token is right, if those in front of it are."""
        return _share(self._right, self._tried, self._prior)

    def length(self, rows: int) -> int:
        """Tokens of the next draft, 0: none. rows: requests that are decoded together."""
        return self.best(rows)[0]

    def best(self, rows: int) -> tuple[int, float]:
        """`length`, and how many tokens of a row a second has with it."""
        return (LONGEST, math.inf) if self._costs is None else self._best(self._costs, rows)

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
        self._right, self._tried = _learnt(self._right, self._tried, offered, accepted)
        if self._experience is not None:
            self._experience.learn(offered, accepted)


def _share(right: float, tried: float, prior: float) -> float:
    return (right + prior * WEIGHT) / (tried + WEIGHT)


def _learnt(
    right: float, tried: float, offered: int, accepted: int, keep: float = KEEP
) -> tuple[float, float]:
    """Nothing is known of what stands behind a token that was wrong."""
    is_wrong = accepted < offered
    return right * keep + accepted, tried * keep + accepted + is_wrong
