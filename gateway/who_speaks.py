"""Who says a word, of what a diariser tells. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from lookhear.engine.messages import Segment, SpeakersHeard, SpeakerTurn, Word

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


def label(speaker: int) -> str:
    """A, B, ..., Z, AA, AB, ..., as OpenAI names those it does not know."""
    letters = ""
    speaker += 1
    while speaker:
        speaker, rest = divmod(speaker - 1, 26)
        letters = chr(ord("A") + rest) + letters
    return letters


class LiveSpeakers:
    """What is known so far of who speaks in a session, on its clock. seconds: up to there."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._over: list[SpeakerTurn] = []
        self._open: list[SpeakerTurn] = []

    def hear(self, heard: SpeakersHeard) -> None:
        """More is known."""
        self.seconds = heard.seconds
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


@dataclass(frozen=True, slots=True)
class SaidPart:
    """A part of a segment, which one speaker says."""

    speaker: int
    text: str
    start: float
    end: float


def parts(segments: Sequence[Segment], words: Sequence[Word]) -> list[SaidPart]:
    """Segments with a speaker, cut where another one begins; joined, their texts are those of the
    segments. Without words they are the segments."""
    found: list[SaidPart] = []
    at = 0  # of the words
    for segment in segments:
        cuts, at = _cuts(segment, words, at)
        if len({word.speaker for _, word in cuts}) < 2:
            speaker = (cuts[0][1] if cuts else segment).speaker or NOBODY
            found.append(SaidPart(speaker, segment.text, segment.start, segment.end))
            continue
        begins = [
            n for n, (_, word) in enumerate(cuts) if not n or word.speaker != cuts[n - 1][1].speaker
        ]
        for n, until in zip(begins, [*begins[1:], len(cuts)], strict=True):
            begin = cuts[n][0] if n else 0
            end = cuts[until][0] if until < len(cuts) else len(segment.text)
            first, last = cuts[n][1], cuts[until - 1][1]
            speaker = first.speaker or NOBODY
            found.append(SaidPart(speaker, segment.text[begin:end], first.start, last.end))
    return found


def _cuts(segment: Segment, words: Sequence[Word], at: int) -> tuple[list[tuple[int, Word]], int]:
    """Where in the segment's text each of its words begins; and the first word behind it."""
    cuts: list[tuple[int, Word]] = []
    place = 0
    while at < len(words):
        written = words[at].word.strip()
        found = segment.text.find(written, place)
        if found < 0 or not written:
            break
        begin = len(segment.text[:found].rstrip())  # with the space in front of it
        cuts.append((begin, words[at]))
        place, at = found + len(written), at + 1
    return cuts, at
