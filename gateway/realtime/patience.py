"""How long a pause may last before the turn is over: by its sound, its words and the eagerness.

Pure, on the audio's clock. The sound is judged once in a pause, at its beginning: the longer the
silence that the classifier hears, the surer it is of every end, true or not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Eagerness = Literal["low", "medium", "high", "auto"]

FIRST_PAUSE_MS = 200  # of silence: then the sound is judged
# Behind a sentence, and what nobody writes there, in any language that Whisper writes.
SENTENCE_ENDS = (".", "?", "!", "。", "？", "！", "।", "؟")
UNENDED_SURE = 0.95  # behind words without such an end; some models write none at all
OPEN = (",", ";", ":", "-", "–", "—", "...", "…", "،", "、", "，")

LIKELY = 0.3  # by its sound: then an answer may be begun that may have to be thrown away
MAX_LAG = 1.0  # seconds that a transcript may take: what is slower has no time for guesses


@dataclass(frozen=True, slots=True)
class Patience:
    """Times are milliseconds of silence. What is surely over ends at the first pause, what is
    likely over and no open phrase after likely_ms, everything after cap_ms. silence_ms: ends a turn
    that nobody could judge."""

    sure: float
    likely: float
    likely_ms: int
    cap_ms: int
    silence_ms: int

    @property
    def pauses_ms(self) -> tuple[int, ...]:
        """The silences at which something may be decided, before the cap."""
        return tuple(sorted({FIRST_PAUSE_MS, self.likely_ms, self.silence_ms} - {self.cap_ms}))

    def is_over(self, pause_ms: int, over: float | None, hypothesis: str) -> bool:
        """over: the probability by sound, None: unknown. hypothesis: what was said so far."""
        if over is None:
            return pause_ms >= self.silence_ms
        sure = self.sure if is_ended(hypothesis) else max(self.sure, UNENDED_SURE)
        if over >= sure and not is_open(hypothesis):
            return True
        return over >= self.likely and pause_ms >= self.likely_ms


def may_be_over(over: float | None, hypothesis: str) -> bool:
    """Whether the first pause is probably the end of the turn: less surely than `Patience` says."""
    is_likely = over is None or over >= LIKELY
    return is_likely and bool(hypothesis.strip()) and not is_open(hypothesis)


def is_ended(text: str) -> bool:
    """Whether it ends as a sentence does; nothing, which has not been heard yet, does, too."""
    text = text.rstrip(" \"')”»")
    return not text or text.endswith(SENTENCE_ENDS)


def is_open(text: str) -> bool:
    """Whether it ends as no sentence does."""
    return text.rstrip().endswith(OPEN)


_USUAL = Patience(sure=0.8, likely=0.5, likely_ms=1000, cap_ms=2000, silence_ms=900)
PATIENCE: dict[Eagerness, Patience] = {
    "low": Patience(sure=0.95, likely=0.5, likely_ms=1500, cap_ms=4000, silence_ms=1500),
    "medium": _USUAL,
    "auto": _USUAL,
    "high": Patience(sure=0.7, likely=0.3, likely_ms=600, cap_ms=1200, silence_ms=500),
}
