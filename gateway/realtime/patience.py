"""How long a pause may last before the turn is over: by its sound, its words and the eagerness.

Pure, on the audio's clock. The sound is judged once in a pause, at its beginning: the longer the
silence that the classifier hears, the surer it is of every end, true or not. The words are known a
little later, when the engine has heard the silence behind the last of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

Eagerness = Literal["low", "medium", "high", "auto"]

FIRST_PAUSE_MS = 200  # of silence: then the sound is judged
PAUSE_MS = 100  # between two looks at a pause
WORDS_MS = 500  # for which the words are waited for; then the sound has to do

LIKELY = 0.3  # then an answer may be begun that may have to be thrown away
MAX_LAG = 1.0  # seconds that a transcript may take: what is slower has no time for guesses

# A logistic regression on pauses inside and behind what people said, in English and Spanish
# (`python -m benchmarks.turn_evidence`): constant, log odds of the sound, of the words.
BY_BOTH = (-0.38, 0.27, 0.34)
BY_SOUND = (-0.59, 0.39)
SENTENCE_ENDS = ".?!。？！।؟"
BARE_TRANSCRIPTS = 2  # without any of these: more is no chance
FLOOR = 0.02  # of a probability: nobody is surer than that


@dataclass(frozen=True, slots=True)
class Patience:
    """Times are milliseconds of silence. What is surely over ends as soon as its words are known,
    what is likely over after likely_ms, everything after cap_ms. silence_ms: ends a turn that
    nobody could judge. guess: so probable, it is worth while to go on as if it were over."""

    sure: float
    likely: float
    likely_ms: int
    cap_ms: int
    silence_ms: int
    guess: float = LIKELY

    @property
    def pauses_ms(self) -> tuple[int, ...]:
        """The silences at which something may be decided, before the cap."""
        return tuple(range(FIRST_PAUSE_MS, self.cap_ms, PAUSE_MS))

    def is_over(self, pause_ms: int, over: float | None) -> bool:
        """over: how probably all is said, None: unknown."""
        if over is None:
            return pause_ms >= self.silence_ms
        return over >= self.sure or (over >= self.likely and pause_ms >= self.likely_ms)

    def may_be_over(self, over: float | None) -> bool:
        """Whether it is worth while to go on as if the turn were over. over: as in `is_over`."""
        return over is None or over >= self.guess


def probability(sound: float | None, words: float | None) -> float | None:
    """How probably all is said. sound: by the classifier. words: how probably a sentence ends
    behind them; None: not known yet. None: nobody could judge the sound."""
    if sound is None:
        return None
    if words is None:
        constant, weight = BY_SOUND
        return _logistic(constant + weight * log_odds(sound))
    constant, of_sound, of_words = BY_BOTH
    return _logistic(constant + of_sound * log_odds(sound) + of_words * log_odds(words))


class Signs:
    """Whether a session's transcripts end sentences with signs: some models write none."""

    def __init__(self) -> None:
        self._without = 0  # transcripts in a row

    @property
    def are_written(self) -> bool:
        """Whether their absence means anything."""
        return self._without < BARE_TRANSCRIPTS

    def read(self, transcript: str) -> None:
        """Of a turn that is complete."""
        if any(sign in transcript for sign in SENTENCE_ENDS):
            self._without = 0
        elif transcript.strip():
            self._without += 1


def log_odds(probability: float) -> float:
    """Natural logarithm of the odds, within what anybody is sure of."""
    held = min(max(probability, FLOOR), 1.0 - FLOOR)
    return math.log(held / (1.0 - held))


def _logistic(x: float) -> float:
    return 1.0 / (1.0 + math.exp(-x))


_USUAL = Patience(sure=0.6, likely=0.25, likely_ms=1400, cap_ms=2000, silence_ms=900)
PATIENCE: dict[Eagerness, Patience] = {
    "low": Patience(sure=0.8, likely=0.6, likely_ms=1000, cap_ms=4000, silence_ms=1500),
    "medium": _USUAL,
    "auto": _USUAL,
    "high": Patience(sure=0.5, likely=0.3, likely_ms=800, cap_ms=1200, silence_ms=500),
}
