"""In which languages a recording is, one window after another. Pure.

What the start token says of a second or two of speech is often wrong, and a text in the wrong
language is nonsense, which the model hardly believes itself. So where other languages are nearly as
likely, a window is heard in them too, and that text is kept which is the likeliest together with
its language: P(language | audio) P(text | language, audio).

Of half a minute it says much more: of people who speak one language hardly anything else is likely,
and where two are spoken both are. Whoever hears all of it in one of them leaves out what is said in
the other, or translates it. So such a window is heard in parts, as far as there are pauses.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations

from lookhear.engine.core.request import Result
from lookhear.engine.speech.language_trial import rivals
from lookhear.engine.whisper.files.attempts import Attempt

# Of the likeliest language's probability, from which on another is spoken, too. With Whisper base
# and half minutes of people, those in one language had 0.04 at the most (Galician in Spanish), nine
# of ten of those in English and Spanish more than 0.05.
MIXED_SHARE = 0.05
# How much likelier it is that people go on in the same language than in a certain other one.
STAYS = 10.0
# Parts in which two languages sound alike, from which on they are not told apart any more, and so
# many more for each change between them that was clear: some are neighbours to a model wherever
# they are spoken.
MOST_ALIKE = 3


class FileLanguage:
    """Of a recording. candidates: ISO codes, the only ones that there may be; empty: any. known: in
    which what was heard last is said; None: nothing was."""

    def __init__(self, candidates: Sequence[str] = (), known: str | None = None) -> None:
        self.known = known
        self._candidates = frozenset(candidates)
        self._alike: Counter[frozenset[str]] = Counter()
        self._changes: Counter[frozenset[str]] = Counter()  # that were clear

    def prior(self, codes: Sequence[str]) -> dict[str, float]:
        """Logarithm of how likely each is before a window is heard, but for a constant; without
        those that sound like the known one. codes: of the checkpoint."""
        possible = [code for code in codes if code in self._candidates] or list(codes)
        return {
            code: math.log(STAYS) if code == self.known else 0.0
            for code in possible
            if self.known is None or self._can_tell(frozenset((self.known, code)))
        }

    def weighed(self, sound: Mapping[str, float]) -> dict[str, float]:
        """The same once it is heard. sound: log-probability of each language, of the window
        alone."""
        return {code: stays + sound[code] for code, stays in self.prior(list(sound)).items()}

    def has_changed(self, sound: Mapping[str, float]) -> bool:
        """Whether it is most likely another one than before."""
        weighed = self.weighed(sound)
        return self.known is not None and max(weighed, key=weighed.__getitem__) != self.known

    def is_mixed(self, sound: Mapping[str, float]) -> bool:
        """Whether it seems that several are spoken."""
        return any(map(self._can_tell, self._pairs(sound)))

    def sound_alike(self, sound: Mapping[str, float]) -> None:
        """That was of a part that cannot be made shorter."""
        self._alike.update(self._pairs(sound))

    def keep(self, code: str, sound: Mapping[str, float]) -> None:
        """The text of a window is one in this language."""
        if self.known not in (None, code) and not self._pairs(sound):
            self._changes[frozenset((self.known or "", code))] += 1
        self.known = code

    def _can_tell(self, pair: frozenset[str]) -> bool:
        return self._alike[pair] < MOST_ALIKE * (1 + self._changes[pair])

    def _pairs(self, sound: Mapping[str, float]) -> list[frozenset[str]]:
        possible = {code: sound[code] for code in self.prior(list(sound))}
        least = max(possible.values(), default=0.0) + math.log(MIXED_SHARE)
        spoken = [code for code, share in possible.items() if share >= least]
        return [frozenset(pair) for pair in combinations(spoken, 2)]


class WindowLanguage:
    """Of one window. asked: token of the language to hear it in next; None: whatever it seems."""

    def __init__(self) -> None:
        self.asked: int | None = None
        self._is_over = False
        self._left: list[int] = []
        self._priors: Mapping[int, float] = {}
        self._texts: list[tuple[float, Attempt]] = []

    def take(
        self, result: Result, attempt: Attempt, weighed: Mapping[int, float]
    ) -> Attempt | None:
        """attempt: what `result` says, at temperature 0 until the trial is over. weighed: logarithm
        of how likely each language is, but for a constant. Returns the text to go on with, which
        from then on is what comes; None: hear it in another language."""
        if self._is_over:
            return attempt
        if not self._texts and attempt.heard.tokens:
            self._priors, self._left = weighed, rivals(weighed)
        prior = 0.0 if attempt.language is None else self._priors.get(attempt.language, 0.0)
        self._texts.append((prior + sum(result.logprobs), attempt))
        if self._left:
            self.asked = self._left.pop(0)
            return None
        # Nothing at all would be the likeliest to be said.
        _, best = max(
            self._texts, key=lambda one: (bool(one[1].heard.tokens), not one[1].loops, one[0])
        )
        self._is_over, self.asked = True, best.language
        return best
