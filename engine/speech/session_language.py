"""Which language a session is in: a belief that every turn adds to. Pure.

A hidden Markov model over turns (Rabiner 1989, "A tutorial on hidden Markov models"): a turn is
mostly in the language of the turn before, and sounds as the checkpoint says. What that says of a
second of speech is often wrong, and of a sentence seldom: so a short or mumbled turn inherits what
was heard before it, and a change of language is followed when it is clearly heard.

How clearly a checkpoint hears a language differs from voice to voice. Of one whose language was
always well ahead of all others, a turn in which it is not is likely in another one; of one that it
takes for its neighbours every other time, that says nothing. And who has spoken two languages will
rather go back to the other than begin a third.
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
# How clearly this voice's language is heard: the mean of its log-odds by sound against all others,
# once HEARD seconds of a turn are (FEW turns, in which they were 0, are there from the beginning).
# What a turn lacks of that counts AGAINST times against staying; one in which that is ODD, or more,
# does not belong to the mean. With Whisper base and 137 recordings of people English had -0.4 at
# least after a second (98 of 100) and 3.1 in the middle, Spanish -6.7 and -1.1.
AGAINST, FEW, HEARD, ODD = 2.5, 0.5, 1.0, 5.0
# As a logarithm, how much likelier it is to go back to a language that was spoken before than to
# begin a certain other one.
BACK = math.log(10.0)
GOES_ON = 0.98  # how probable it is that the next turn is in the same language, before it is heard
# Probability from which on a language counts as known. With Whisper base and recordings of people
# cut to 0.7 to 6 s, 1 of 423 languages was wrong that were as probable; 29 of 572 above 0.4.
SURE = 0.8
# Turns that are too short to tell their language are heard together, from SEVERAL seconds on; what
# SOLID seconds say is no guess. Whisper base and synthesised answers of a word or two (0.4 to 1.4
# s, four languages): alone it is the likeliest for 21 of 40, together from 2.5 s on for all. What
# LIKELY is by then is likelier than the guesses before.
SEVERAL, SOLID, LIKELY = 2.0, 5.0, 0.5
TINY = 1e-30  # probability of what has none

Heard = Mapping[str, float]  # log-probability of each language, of some audio alone


def probabilities(scores: Heard) -> dict[str, float]:
    """Of log-odds."""
    largest = max(scores.values())
    odds = {code: math.exp(score - largest) for code, score in scores.items()}
    total = sum(odds.values())
    return {code: value / total for code, value in odds.items()}


def log_odds(sound: Heard, code: str) -> float:
    """Of one language against all others. sound: log-probabilities."""
    own = math.exp(sound[code])
    return sound[code] - math.log(max(sum(map(math.exp, sound.values())) - own, TINY))


class SessionLanguage:
    """candidates: ISO codes, the only ones that there may be; empty: any. belief: probability of
    each after the last turn; empty before there was one. spoken: of each language that was sure
    after a turn, in how many it was, and the sum of its log-odds by sound. is_solid: whether so
    much was heard that the language is no guess."""

    def __init__(
        self,
        candidates: Sequence[str] = (),
        belief: Mapping[str, float] | None = None,
        spoken: Mapping[str, tuple[int, float]] | None = None,
        *,
        is_solid: bool = False,
    ) -> None:
        self.candidates = frozenset(candidates)
        self.belief = dict(belief or {})
        self.spoken = dict(spoken or {})
        self.is_solid = is_solid
        self._next: SessionLanguage | None = None  # see `among`

    def among(self, candidates: Sequence[str]) -> SessionLanguage:
        """The same, where only these may be detected from now on, with what turns that are under
        way will add to it. Where what was likeliest is none of them, nothing is known of the
        others."""
        self._next = SessionLanguage(candidates)
        self._hand_on()
        return self._next

    def _hand_on(self) -> None:
        """What is known, to those of other candidates that follow."""
        if (after := self._next) is None:
            return
        possible = after.candidates or frozenset(self.belief)
        belief: dict[str, float] = {}
        if self._likeliest() in possible:
            belief = {code: p for code, p in self.belief.items() if code in possible}
        total = sum(belief.values())
        after.belief = {code: p / total for code, p in belief.items()}
        kept = after.candidates or frozenset(self.spoken)
        after.spoken = {c: heard for c, heard in self.spoken.items() if belief and c in kept}
        after.is_solid = bool(belief) and self.is_solid
        after._hand_on()

    def sure(self) -> str | None:
        """What the next turn is in, if that is clear before it is heard."""
        likeliest = self._likeliest()
        if likeliest is None or self.belief[likeliest] * GOES_ON < SURE:
            return None
        return likeliest

    def _likeliest(self) -> str | None:
        return max(self.belief, key=self.belief.__getitem__, default=None)

    def prior(
        self, codes: Sequence[str], seconds: float = 0.0, sound: Heard | None = None
    ) -> dict[str, float]:
        """Logarithm of how likely each language is, but for a constant, before what is heard of a
        turn counts. codes: of the checkpoint. seconds, sound: of the turn that are heard, and
        what they say without the text."""
        possible = [code for code in codes if code in self.candidates] or list(codes)
        if not self.belief:  # nothing was heard before
            return dict.fromkeys(possible, -math.log(max(1, len(possible))))
        stays = self._stays(seconds, sound or {})
        return {
            code: math.log(
                self.belief.get(code, 0.0) + math.exp((BACK if code in self.spoken else 0) - stays)
            )
            for code in possible
        }

    def _stays(self, seconds: float, sound: Heard) -> float:
        """How much likelier it is, as a logarithm, that the turn is in the language of the one
        before than in a certain other one."""
        short = PER_SECOND * max(0.0, LONG - seconds)
        return max(0.0, min(STAYS + short, STAYS_MOST) - self.doubt(seconds, sound))

    def doubt(self, seconds: float, sound: Heard) -> float:
        """How much less likely it is to stay, as a logarithm, since the language is less clearly
        heard than usual."""
        code = self._likeliest()
        if seconds < HEARD or code not in sound or code not in self.spoken:
            return 0.0
        turns, ahead = self.spoken[code]
        missing = ahead / (turns + FEW) - max(0.0, log_odds(sound, code))
        return AGAINST * max(0.0, missing)

    def posterior(
        self, heard: Heard, seconds: float, sound: Heard | None = None
    ) -> dict[str, float]:
        """Probability of each language, once so much of a turn is heard. sound: the same without
        what the text says."""
        prior = self.prior(list(heard), seconds, sound)
        return probabilities({code: p + heard[code] for code, p in prior.items()})

    def conclude(
        self, heard: Heard, seconds: float, sound: Heard | None = None, first: Heard | None = None
    ) -> None:
        """A turn is over, in which this was heard. first: by sound, once HEARD of it were."""
        if not heard:
            return
        before, doubt = self._likeliest(), self.doubt(HEARD, first or {})
        self.belief = self.posterior(heard, seconds, sound)
        code = self.sure()
        is_same = self._likeliest() == before
        self.is_solid = (self.is_solid and is_same) or (code is not None and seconds >= LONG)
        is_odd = code == before and doubt >= ODD
        if code is not None and first and code in first and not is_odd:
            turns, ahead = self.spoken.get(code, (0, 0.0))
            self.spoken[code] = turns + 1, ahead + log_odds(first, code)
        self._hand_on()

    def join(self, sound: Heard, seconds: float) -> None:
        """Several turns were heard together, so many seconds, with this log-probability of each
        language: if it is clear, they were in that, whatever each of them was taken for."""
        possible = {c: p for c, p in sound.items() if not self.candidates or c in self.candidates}
        if not possible:
            return
        before, heard = self._likeliest(), probabilities(possible)
        likeliest = max(heard, key=heard.__getitem__)
        if likeliest != before and heard[likeliest] >= LIKELY:
            self.belief = heard
            self.spoken.pop(before or "", None)
        self.is_solid = heard[likeliest] >= SURE and seconds >= SOLID
        self._hand_on()
