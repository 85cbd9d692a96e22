"""How long a pause may last before the turn is over: by its sound, its words and the eagerness.

Pure, on the audio's clock. The words are known first, as soon as the engine has heard the silence
behind the last of them, and the sound is judged only if it can still change what they say. It is
that of its beginning: the longer the silence that the classifier hears, the less it tells.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

Eagerness = Literal["low", "medium", "high", "auto"]

FIRST_PAUSE_MS = 200  # of silence: shorter ones are between any two words
PAUSE_MS = 100  # between two looks at a pause
WORDS_MS = 500  # for which the words are waited for; then the sound has to do

LIKELY = 0.3  # then an answer may be begun that may have to be thrown away
MAX_LAG = 1.0  # seconds that a transcript may take: what is slower has no time for guesses

# A logistic regression on pauses inside and behind what people said in English, its words by two
# sizes of Whisper (`python -m benchmarks.conversation.turn_evidence`): constant, log odds of the
# sound, of the sign behind the words, of the closing. Tried on Spanish. Constants are such that
# of those pauses as many are `sure` by each of the three.
BY_ALL = (-2.32, 0.61, 0.33, 0.90)
BY_BOTH = (0.80, 0.71, 0.78)
BY_SOUND = (0.44, 0.82)
UNHEARD = 0.25  # for a sound that nobody judged: words alone end no turn at once
SENTENCE_ENDS = ".?!。？！؟۔।"
BARE_TRANSCRIPTS = 2  # without any of these: more is no chance
FLOOR = 0.02  # of a probability: nobody is surer than that
CLOSING_FLOOR = 0.001  # of a closing: a model that hears a pause expects hardly ever another word


class Words(NamedTuple):
    """How probably a sentence ends behind them. ended: by the sign that the model chose. closing:
    by all that it might have chosen instead of another word; None: it does not tell."""

    ended: float
    closing: float | None = None

    def at_most(self, ended: float, closing: float) -> Words:
        """No more probably than that."""
        held = None if self.closing is None else min(self.closing, closing)
        return Words(min(self.ended, ended), held)


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
        looks = {*range(FIRST_PAUSE_MS, self.cap_ms, PAUSE_MS), self.likely_ms}
        return tuple(sorted(look for look in looks if FIRST_PAUSE_MS <= look < self.cap_ms))

    def is_over(self, pause_ms: int, over: float | None) -> bool:
        """over: how probably all is said, None: unknown."""
        if over is None:
            return pause_ms >= self.silence_ms
        return over >= self.sure or (over >= self.likely and pause_ms >= self.likely_ms)

    def depends_on_sound(self, pause_ms: int, words: Words | None) -> bool:
        """Whether `is_over` may be told either way by the sound. words: as in `probability`."""
        least, most = (self.is_over(pause_ms, probability(sound, words)) for sound in (0.0, 1.0))
        return least != most

    def may_be_over(self, over: float | None) -> bool:
        """Whether it is worth while to go on as if the turn were over. over: as in `is_over`."""
        return over is None or over >= self.guess


def probability(sound: float | None, words: Words | None) -> float | None:
    """How probably all is said. sound: by the classifier, None: it was not asked, or could not
    tell, so that the words have to do. words: None: not known. None: neither is."""
    if sound is None and words is None:
        return None
    if sound is None:
        sound = UNHEARD
    if words is None:
        constant, weight = BY_SOUND
        return _logistic(constant + weight * log_odds(sound))
    if words.closing is None:
        constant, of_sound, of_sign = BY_BOTH
        of_closing = closing = 0.0
    else:
        constant, of_sound, of_sign, of_closing = BY_ALL
        closing = log_odds(words.closing, CLOSING_FLOOR)
    told = of_sound * log_odds(sound) + of_sign * log_odds(words.ended) + of_closing * closing
    return _logistic(constant + told)


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


def log_odds(probability: float, floor: float = FLOOR) -> float:
    """Natural logarithm of the odds, within what anybody is sure of."""
    held = min(max(probability, floor), 1.0 - floor)
    return math.log(held / (1.0 - held))


def _logistic(x: float) -> float:
    return 1.0 / (1.0 + math.exp(-x))


_USUAL = Patience(sure=0.85, likely=0.08, likely_ms=1340, cap_ms=2000, silence_ms=900)
PATIENCE: dict[Eagerness, Patience] = {
    "low": Patience(sure=0.9, likely=0.4, likely_ms=1400, cap_ms=4000, silence_ms=1500),
    "medium": _USUAL,
    "auto": _USUAL,
    "high": Patience(sure=0.65, likely=0.3, likely_ms=800, cap_ms=1200, silence_ms=500),
}
