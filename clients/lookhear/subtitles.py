"""Turns as subtitles: SubRip and WebVTT."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lookhear.events import TurnCompleted


def _stamp(seconds: float, comma: str) -> str:
    milliseconds = round(max(0.0, seconds) * 1000)
    minutes, milliseconds = divmod(milliseconds, 60_000)
    hours, minutes = divmod(minutes, 60)
    whole, milliseconds = divmod(milliseconds, 1000)
    return f"{hours:02}:{minutes:02}:{whole:02}{comma}{milliseconds:03}"


def _cues(turns: Sequence[TurnCompleted], comma: str) -> list[str]:
    said = sorted((turn for turn in turns if turn.text.strip()), key=lambda turn: turn.start)
    return [
        f"{_stamp(turn.start, comma)} --> {_stamp(turn.end, comma)}\n{turn.text.strip()}\n"
        for turn in said
    ]


def srt(turns: Sequence[TurnCompleted]) -> str:
    """SubRip: numbered cues, comma before the milliseconds."""
    cues = _cues(turns, ",")
    return "".join(f"{number}\n{cue}\n" for number, cue in enumerate(cues, 1))


def vtt(turns: Sequence[TurnCompleted]) -> str:
    """WebVTT: a header, cues without numbers, dot before the milliseconds."""
    return "WEBVTT\n\n" + "".join(f"{cue}\n" for cue in _cues(turns, "."))


FORMATS: dict[str, Callable[[Sequence[TurnCompleted]], str]] = {"srt": srt, "vtt": vtt}
