"""A transcribed file as the formats of the HTTP endpoint."""

from __future__ import annotations

import html
import math
import zlib
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from lookhear.engine.messages import FileTranscribed, Segment, Word
from lookhear.gateway.checks.languages import english_name
from lookhear.gateway.files.languages import told
from lookhear.gateway.who_speaks import label


def _clock(seconds: float, mark: str) -> str:
    """12.5 -> "00:00:12,500" with mark ","."""
    milliseconds = max(0, round(seconds * 1000))
    hours, rest = divmod(milliseconds, 3_600_000)
    minutes, rest = divmod(rest, 60_000)
    whole, milliseconds = divmod(rest, 1000)
    return f"{hours:02}:{minutes:02}:{whole:02}{mark}{milliseconds:03}"


def _seconds(seconds: float) -> float:
    """Times are no finer than milliseconds, and 0.82 is not 0.8200000000000001."""
    return round(seconds, 3)


def _line(segment: Segment) -> str:
    return " ".join(segment.text.split())


def srt(segments: Sequence[Segment]) -> str:
    """SubRip, which has no way to write "-->" inside a text: it would end the cue."""
    cues = [
        f"{number}\n{_clock(s.start, ',')} --> {_clock(s.end, ',')}\n"
        f"{_line(s).replace('-->', '->')}\n"
        for number, s in enumerate(segments, 1)
    ]
    return "\n".join(cues)


def vtt(segments: Sequence[Segment]) -> str:
    """WebVTT, where "<" and "&" begin something else than text."""
    cues = [
        f"{_clock(s.start, '.')} --> {_clock(s.end, '.')}\n{html.escape(_line(s), quote=False)}\n"
        for s in segments
    ]
    return "\n".join(["WEBVTT\n", *cues])


def usage(result: FileTranscribed) -> dict[str, Any]:
    """Count what was transcribed in whole seconds, as OpenAI does."""
    return {"type": "duration", "seconds": math.ceil(result.duration)}


def plain_json(result: FileTranscribed) -> dict[str, Any]:
    """Write the format `json`."""
    body: dict[str, Any] = {"text": result.text, "usage": usage(result)}
    if languages := told(result):
        body["languages"] = languages
    if result.logprobs is not None:
        body["logprobs"] = [asdict(token) for token in result.logprobs]
    return body


def verbose_json(
    result: FileTranscribed, *, task: str, segments: bool, words: bool
) -> dict[str, Any]:
    """Write the format `verbose_json`."""
    body: dict[str, Any] = {
        "task": task,
        "language": english_name(result.language),
        "duration": result.duration,
        "text": result.text,
    }
    if segments:
        body["segments"] = [
            {
                "id": number,
                "seek": round(s.start * 100),  # Whisper's unit: 10 ms frames
                "start": _seconds(s.start),
                "end": _seconds(s.end),
                "text": s.text,
                "tokens": list(s.tokens),
                "temperature": s.temperature,
                "avg_logprob": s.avg_logprob,
                "compression_ratio": compression_ratio(s.text),
                "no_speech_prob": s.no_speech_prob,
                **({} if s.language is None else {"language": english_name(s.language)}),
                **_speaker(s),
            }
            for number, s in enumerate(result.segments)
        ]
    if words:
        body["words"] = [
            {
                "word": w.word.strip(),
                "start": _seconds(w.start),
                "end": _seconds(w.end),
                **_speaker(w),
            }
            for w in result.words
        ]
    body["usage"] = usage(result)
    return body


def _speaker(said: Segment | Word) -> dict[str, str]:
    """Nothing, where nobody asked who speaks."""
    return {} if said.speaker is None else {"speaker": label(said.speaker)}


def compression_ratio(text: str) -> float:
    """How much zlib makes of it: high for text that repeats itself (openai/whisper)."""
    data = text.encode()
    return round(len(data) / len(zlib.compress(data)), 4) if data else 0.0
