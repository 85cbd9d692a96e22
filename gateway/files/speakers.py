"""Who said what: words of a transcript, and turns of speakers in the same recording. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from lookhear.engine.messages import FileTranscribed, Segment, SpeakerTurn, Word
from lookhear.gateway.who_speaks import NOBODY, speaker_of


def label(speaker: int) -> str:
    """A, B, ..., Z, AA, AB, ..., as OpenAI names those it does not know."""
    letters = ""
    speaker += 1
    while speaker:
        speaker, rest = divmod(speaker - 1, 26)
        letters = chr(ord("A") + rest) + letters
    return letters


def with_speakers(result: FileTranscribed, turns: Sequence[SpeakerTurn]) -> FileTranscribed:
    """The transcript, in which words and segments have a speaker. A segment's is whoever says most
    of it."""
    words = [replace(w, speaker=speaker_of(w.start, w.end, turns)) for w in result.words]
    segments = [replace(s, speaker=_speaker_of(s, words, turns)) for s in result.segments]
    return replace(result, words=words, segments=segments)


def _speaker_of(segment: Segment, words: Sequence[Word], turns: Sequence[SpeakerTurn]) -> int:
    counts: dict[int, float] = {}
    for word in words:
        if word.speaker is not None and segment.start <= (word.start + word.end) / 2 < segment.end:
            counts[word.speaker] = counts.get(word.speaker, 0.0) + word.end - word.start
    if counts:
        return max(counts, key=lambda speaker: (counts[speaker], -speaker))
    return speaker_of(segment.start, segment.end, turns)


@dataclass(frozen=True, slots=True)
class SaidPart:
    """A part of a segment, which one speaker says."""

    speaker: int
    text: str
    start: float
    end: float


def parts(result: FileTranscribed) -> list[SaidPart]:
    """Segments with a speaker, cut where another one begins; joined, their texts are those of the
    segments. Without words they are the segments."""
    found: list[SaidPart] = []
    at = 0  # of the words
    for segment in result.segments:
        cuts, at = _cuts(segment, result.words, at)
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


def diarized_json(result: FileTranscribed, usage: dict[str, Any]) -> dict[str, Any]:
    """Write the format `diarized_json`."""
    return {
        "task": "transcribe",
        "duration": result.duration,
        "text": result.text,
        "segments": [told(number, part) for number, part in enumerate(parts(result))],
        "usage": usage,
    }


def told(number: int, part: SaidPart) -> dict[str, Any]:
    """One of the segments, also as an event of a stream."""
    return {
        "type": "transcript.text.segment",
        "id": f"seg_{number:03}",
        "start": round(part.start, 3),
        "end": round(part.end, 3),
        "text": part.text,
        "speaker": label(part.speaker),
    }
