"""Which language a session is in: a belief that every turn adds to. Pure.

A hidden Markov model over turns (Rabiner 1989, "A tutorial on hidden Markov models"): a turn is
mostly in the language of the turn before, and sounds as the checkpoint says. What that says of a
second of speech is often wrong, and of a sentence seldom: so a short or mumbled turn inherits what
was heard before it, and a change of language is followed when it is clearly heard.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

# How much likelier it is, as a logarithm, that a turn is in the language of the one before than in
# a certain other one: STAYS if LONG seconds were heard of it, and for each that lacks so much more.
# With Whisper base and 61 recordings of people, what is spoken was likelier than all else by 4.3 at
# least in English, in Spanish at worst less likely by 1.1, and by 2.4 of two seconds; and Spanish
# was likelier than English by 0.8 to 6.9, before its text was asked.
STAYS, LONG, PER_SECOND = math.log(10.0), 3.0, 3.0
STAYS_MOST = math.log(5000.0)
GOES_ON = 0.98  # how probable it is that the next turn is in the same language, before it is heard
# Probability from which on a language counts as known. With Whisper base and recordings of people
# cut to 0.7 to 6 s, 1 of 423 languages was wrong that were as probable; 29 of 572 above 0.4.
SURE = 0.8

Heard = Mapping[str, float]  # log-probability of each language, of some audio alone


def probabilities(scores: Heard) -> dict[str, float]:
    """Of log-odds."""
    largest = max(scores.values())
    odds = {code: math.exp(score - largest) for code, score in scores.items()}
    total = sum(odds.values())
    return {code: value / total for code, value in odds.items()}


class SessionLanguage:
    """candidates: ISO codes, the only ones that there may be; empty: any. belief: probability of
    each after the last turn; empty before there was one."""

    def __init__(
        self, candidates: Sequence[str] = (), belief: Mapping[str, float] | None = None
    ) -> None:
        self.candidates = frozenset(candidates)
        self.belief = dict(belief or {})

    def sure(self) -> str | None:
        """What the next turn is in, if that is clear before it is heard."""
        likeliest = max(self.belief, key=self.belief.__getitem__, default=None)
        if likeliest is None or self.belief[likeliest] * GOES_ON < SURE:
            return None
        return likeliest

    def prior(self, codes: Sequence[str], seconds: float = 0.0) -> dict[str, float]:
        """Logarithm of how likely each language is, but for a constant, before what is heard of a
        turn counts. codes: of the checkpoint. seconds: of the turn that are heard."""
        possible = [code for code in codes if code in self.candidates] or list(codes)
        short = PER_SECOND * max(0.0, LONG - seconds)
        alone = 1.0 / max(1, len(possible))  # nothing was heard before
        switched = math.exp(-min(STAYS + short, STAYS_MOST)) if self.belief else alone
        return {code: math.log(self.belief.get(code, 0.0) + switched) for code in possible}

    def posterior(self, heard: Heard, seconds: float) -> dict[str, float]:
        """Probability of each language, once so much of a turn is heard."""
        prior = self.prior(list(heard), seconds)
        return probabilities({code: p + heard[code] for code, p in prior.items()})

    def conclude(self, heard: Heard, seconds: float) -> None:
        """A turn is over, in which this was heard."""
        if heard:
            self.belief = self.posterior(heard, seconds)
