"""What a pause means: the turn is over, is probably over, or goes on. Pure."""

from __future__ import annotations

from lookhear.gateway.realtime.listening.turn import Turn
from lookhear.gateway.realtime.open_words import sentence_end
from lookhear.gateway.realtime.patience import (
    FIRST_PAUSE_MS,
    MAX_LAG,
    WORDS_MS,
    Patience,
    Signs,
    Words,
    probability,
)


class Pauses:
    """In the turns of one session, and what its transcripts tell about them. voiced_until: where
    the last speech ended, on the session's clock."""

    def __init__(self) -> None:
        self._signs = Signs()
        self._lag = 0.0  # seconds that the last transcript took

    def read(self, transcript: str, lag: float) -> None:
        """Of a turn that is complete. lag: seconds that it took after the commit."""
        self._signs.read(transcript)
        self._lag = lag

    def wants_sound(self, turn: Turn, pause_ms: int, voiced_until: int, patience: Patience) -> bool:
        """Whether it depends on the sound if the turn ends here, by all else that is known."""
        if self._waits(turn, pause_ms, voiced_until):
            return False
        return patience.depends_on_sound(pause_ms, self._words(turn, voiced_until))

    def is_over(self, turn: Turn, pause_ms: int, voiced_until: int, patience: Patience) -> bool:
        """Whether the turn ends here. Its words are waited for a while."""
        if self._waits(turn, pause_ms, voiced_until):
            return False
        return patience.is_over(pause_ms, self.over(turn, voiced_until))

    def guess(self, turn: Turn, pause_ms: int, voiced_until: int, patience: Patience) -> str | None:
        """All that the turn says, if it is probably over."""
        if pause_ms < FIRST_PAUSE_MS or self._lag > MAX_LAG or not turn.hypothesis.strip():
            return None
        if _is_heard_out(turn) and self._waits(turn, pause_ms, voiced_until):
            return None
        return turn.hypothesis if patience.may_be_over(self.over(turn, voiced_until)) else None

    def over(self, turn: Turn, voiced_until: int) -> float | None:
        """How probably all is said, by the sound of the pause and the words before it. None:
        neither is known, or silence alone ends the turn."""
        if not _is_heard_out(turn):
            return None
        return probability(turn.sound, self._words(turn, voiced_until))

    def _waits(self, turn: Turn, pause_ms: int, voiced_until: int) -> bool:
        """Whether its words are still to come, and there is time for them."""
        return pause_ms < WORDS_MS and self._signs.are_written and not turn.is_heard(voiced_until)

    def _words(self, turn: Turn, voiced_until: int) -> Words | None:
        """How probably a sentence ends behind them; None: not known yet, or not by this model."""
        if not self._signs.are_written or not turn.is_heard(voiced_until):
            return None
        return sentence_end(turn.hypothesis, turn.words)


def _is_heard_out(turn: Turn) -> bool:
    """Whether anything but silence ends it."""
    return turn.settings.turn_end == "sound"
