"""Turns as files: SubRip, WebVTT, and lines of text."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.cells import cell_len, chop_cells

from lookhear.errors import UsageError
from lookhear.live.events import TurnCompleted
from lookhear.terminal.output import is_replaceable, replace_file, require_writable, write_file

# In cells of a terminal, of which a letter of Chinese or Japanese has two.
_CUE_CELLS = 84  # two lines of 42, as subtitles have them
_SENTENCE_CELLS = 40  # a sentence of so many ends its cue
_ENDS = tuple(".?!…。？！؟۔।")
# What a line may end behind: a space, and in languages without them a sign.
_BREAKABLE = re.compile(r"[^ 。？！、，]*[。？！、，]+[」』）”]* ?|[^ 。？！、，]+ ?")
Cue = tuple[float, float, str]  # from, to (seconds), text


def cues(turns: Sequence[TurnCompleted]) -> list[Cue]:
    """In the order of speaking. Long turns become several cues, their time divided by letters."""
    found: list[Cue] = []
    for start, whole_end, text in _parts(turns):
        pieces = _pieces(text)
        letters = sum(map(len, pieces))
        seconds = whole_end - start
        for piece in pieces:
            end = start + seconds * len(piece) / letters
            found.append((start, end, piece))
            start = end
    return found


def _parts(turns: Sequence[TurnCompleted]) -> list[Cue]:
    """What was said without a break: a turn, or what one speaker says of it, where that is told."""
    parts: list[Cue] = []
    for turn in sorted(turns, key=lambda turn: turn.start):
        if turn.said:
            said = (p for p in turn.said if p.text.strip())
            parts += [(p.start, p.end, f"{p.speaker}: {p.text.strip()}") for p in said]
        elif turn.text.strip():
            parts.append((turn.start, turn.end, turn.text.strip()))
    return parts


def _pieces(text: str) -> list[str]:
    pieces: list[str] = []
    line = ""
    for part in _BREAKABLE.findall(" ".join(text.split())):
        for word in chop_cells(part, _CUE_CELLS):  # one, if it is no longer
            if line and cell_len((line + word).rstrip()) > _CUE_CELLS:
                pieces.append(line.rstrip())
                line = ""
            line += word
        if line.rstrip().endswith(_ENDS) and cell_len(line.rstrip()) >= _SENTENCE_CELLS:
            pieces.append(line.rstrip())
            line = ""
    return [*pieces, line.rstrip()] if line else pieces


def _stamp(seconds: float, comma: str) -> str:
    milliseconds = round(max(0.0, seconds) * 1000)
    minutes, milliseconds = divmod(milliseconds, 60_000)
    hours, minutes = divmod(minutes, 60)
    whole, milliseconds = divmod(milliseconds, 1000)
    return f"{hours:02}:{minutes:02}:{whole:02}{comma}{milliseconds:03}"


def _timed(turns: Sequence[TurnCompleted], comma: str, written: Callable[[str], str]) -> list[str]:
    return [
        f"{_stamp(start, comma)} --> {_stamp(end, comma)}\n{written(text)}\n"
        for start, end, text in cues(turns)
    ]


def srt(turns: Sequence[TurnCompleted]) -> str:
    """SubRip: numbered cues, comma before the milliseconds; "-->" in a text would end its cue."""
    timed = _timed(turns, ",", lambda text: text.replace("-->", "->"))
    return "".join(f"{number}\n{cue}\n" for number, cue in enumerate(timed, 1))


def vtt(turns: Sequence[TurnCompleted]) -> str:
    """WebVTT: a header, cues without numbers, dot before the milliseconds; "<" and "&" of a text
    would begin something else."""
    timed = _timed(turns, ".", lambda text: html.escape(text, quote=False))
    return "WEBVTT\n\n" + "".join(f"{cue}\n" for cue in timed)


def txt(turns: Sequence[TurnCompleted]) -> str:
    """A line per turn, or for each part of it that one speaker says."""
    return "".join(f"{text}\n" for _, _, text in _parts(turns))


FORMATS: dict[str, Callable[[Sequence[TurnCompleted]], str]] = {"srt": srt, "vtt": vtt}
_SUFFIXES = {".srt": srt, ".vtt": vtt, ".txt": txt}


class TranscriptFile:
    """A .srt, .vtt or .txt that is whole after every turn; a pipe or a device of that name, or a
    file in a folder that takes no other, is written to by `save` alone. What was there before is
    left alone until the first of them, or `save`. UsageError, OutputError."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        write = _SUFFIXES.get(self._path.suffix.lower())
        if write is None:
            raise UsageError(f"--out: expected a name that ends in .srt, .vtt or .txt, got {path}")
        require_writable(self._path)
        self._is_replaceable = is_replaceable(self._path)
        self._write = write
        self._turns: list[TurnCompleted] = []

    def add(self, turn: TurnCompleted) -> None:
        """Write this turn too. OutputError."""
        self._turns.append(turn)
        if self._is_replaceable:
            self.save()

    def save(self) -> None:
        """Write what there is so far, be it nothing. OutputError."""
        text = self._write(self._turns)
        (replace_file if self._is_replaceable else write_file)(self._path, text)
