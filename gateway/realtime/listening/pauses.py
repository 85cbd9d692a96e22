"""What a pause means: the turn is over, is probably over, or goes on. Pure."""

from __future__ import annotations

from lookhear.gateway.realtime.listening.turn import Turn
from lookhear.gateway.realtime.patience import (
    FIRST_PAUSE_MS,
    MAX_LAG,
    WORDS_MS,
    Patience,
    Signs,
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

    def is_over(self, turn: Turn, pause_ms: int, voiced_until: int, patience: Patience) -> bool:
        """Whether the turn ends here. Its words are waited for a while."""
        if pause_ms < WORDS_MS and self._signs.are_written and not turn.is_heard(voiced_until):
            return False
        return patience.is_over(pause_ms, self.over(turn, voiced_until))

    def guess(self, turn: Turn, pause_ms: int, voiced_until: int, patience: Patience) -> str | None:
        """All that the turn says, if it is probably over."""
        is_long = pause_ms >= FIRST_PAUSE_MS and self._lag <= MAX_LAG
        said = turn.hypothesis
        is_over = is_long and said.strip() and patience.may_be_over(self.over(turn, voiced_until))
        return said if is_over else None

    def over(self, turn: Turn, voiced_until: int) -> float | None:
        """How probably all is said, by the sound of the pause and the words before it. None: the
        sound was not judged."""
        is_known = self._signs.are_written and turn.is_heard(voiced_until)
        return probability(turn.sound, turn.ended if is_known else None)
