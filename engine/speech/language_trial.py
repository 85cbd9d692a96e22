"""A text is heard in several languages, and the likeliest kept together with its language. Pure.

What the start token says of a few seconds of a voice with an accent is often wrong, and a text in
the wrong language is nonsense, which the model hardly believes itself. So where a turn is over, or
pauses, and no language is clear yet, it is heard in those that are nearly as likely, too:
P(language | audio) P(text | language, audio) decides, as with files.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TypeVar

from lookhear.engine.speech.text.hypothesis import Hypothesis

LEAST_SHARE = 0.1  # of the likeliest language's probability, to be tried beside it
MOST_RIVALS = 2
LEAST_LENGTH = 1 / 3  # of the tokens of the longest text: who writes fewer leaves out what was said

Language = TypeVar("Language")


def rivals(languages: Mapping[Language, float]) -> list[Language]:
    """What else it may be spoken in, likeliest first. languages: log-probabilities; empty for a
    checkpoint that has just one."""
    ranked = sorted(languages, key=lambda one: -languages[one])
    least = languages[ranked[0]] + math.log(LEAST_SHARE) if ranked else 0.0
    return [one for one in ranked[1 : 1 + MOST_RIVALS] if languages[one] >= least]


class LanguageTrial:
    """Of a segment. asked: ISO code to hear it in next; None: whatever it seems."""

    def __init__(self) -> None:
        self.asked: str | None = None
        self._left: list[str] = []
        self._sound: Mapping[str, float] = {}
        self._heard: list[Hypothesis] = []

    def drop(self) -> None:
        """Somebody speaks on: what was heard is of less than there is now."""
        self.asked, self._left, self._heard = None, [], []

    def take(self, new: Hypothesis, sound: Mapping[str, float]) -> Hypothesis | None:
        """What was heard last. sound: log-probability of each language without the text. Returns
        what is the likeliest, if no other is to be tried: then the trial is over."""
        if not self._heard:
            self._sound = sound
            likely = [*sorted(sound, key=lambda code: -sound[code])[:1], *rivals(sound)]
            self._left = [code for code in likely if code != new.language]
        self._heard.append(new)
        if self._left:
            self.asked = self._left.pop(0)
            return None
        longest = max(len(heard.tokens) for heard in self._heard)
        whole = [one for one in self._heard if len(one.tokens) >= LEAST_LENGTH * longest]
        best = max(whole, key=self._score)
        self.drop()
        return best

    def _score(self, heard: Hypothesis) -> float:
        return self._sound.get(heard.language or "", -math.inf) + sum(heard.logprobs)
