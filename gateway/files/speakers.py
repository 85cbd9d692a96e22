"""Who said what: words of a transcript, and turns of speakers in the same recording. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from lookhear.engine.messages import FileTranscribed, Segment, SpeakerTurn, Word
from lookhear.gateway.who_speaks import SaidPart, label, parts, speaker_of


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


def diarized_json(result: FileTranscribed, usage: dict[str, Any]) -> dict[str, Any]:
    """Write the format `diarized_json`."""
    return {
        "task": "transcribe",
        "duration": result.duration,
        "text": result.text,
        "segments": diarized_segments(result),
        "usage": usage,
    }


def diarized_segments(result: FileTranscribed) -> list[dict[str, Any]]:
    """Who said what, in order; each is an event of a stream, too."""
    said = parts(result.segments, result.words)
    return [_told(number, part) for number, part in enumerate(said)]


def _told(number: int, part: SaidPart) -> dict[str, Any]:
    return {
        "type": "transcript.text.segment",
        "id": f"seg_{number:03}",
        "start": round(part.start, 3),
        "end": round(part.end, 3),
        "text": part.text,
        "speaker": label(part.speaker),
    }
