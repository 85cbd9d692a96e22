"""Who says a word, of what a diariser tells. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from lookhear.engine.messages import SpeakersHeard, SpeakerTurn, Word

NOBODY = 0  # whose the text is where a diariser has heard nobody
KEPT_SECONDS = 120.0  # for which it is remembered who spoke, live: longer than a word waits


def speaker_of(start: float, end: float, turns: Sequence[SpeakerTurn]) -> int:
    """Who speaks most of the time from start to end; if nobody does, whoever does next to it."""
    spoken: dict[int, float] = {}
    for turn in turns:
        if (seconds := min(end, turn.end) - max(start, turn.start)) > 0:
            spoken[turn.speaker] = spoken.get(turn.speaker, 0.0) + seconds
    if spoken:
        return max(spoken, key=lambda speaker: (spoken[speaker], -speaker))
    if not turns:
        return NOBODY
    nearest = min(turns, key=lambda t: (max(t.start - end, start - t.end), t.speaker))
    return nearest.speaker


class LiveSpeakers:
    """What is known so far of who speaks in a session, on its clock."""

    def __init__(self) -> None:
        self._over: list[SpeakerTurn] = []
        self._open: list[SpeakerTurn] = []

    def hear(self, heard: SpeakersHeard) -> None:
        """More is known."""
        since = heard.seconds - KEPT_SECONDS
        self._over = [turn for turn in (*self._over, *heard.over) if turn.end >= since]
        self._open = heard.open

    def named(self, words: Iterable[Word], start: float) -> list[Word]:
        """The words with whoever says them, as far as is known. start: of their turn."""
        turns = [*self._over, *self._open]
        return [
            replace(word, speaker=speaker_of(start + word.start, start + word.end, turns))
            for word in words
        ]
