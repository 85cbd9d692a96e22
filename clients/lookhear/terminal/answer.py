"""An answer on a terminal while it is written, wrapped at words; bare text when piped."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

from rich.cells import cell_len
from rich.console import Console
from rich.status import Status
from rich.text import Text

from lookhear.chat.answers import (
    AnswerCompleted,
    AnswerDelta,
    AnswerEvent,
    AnswerRestarted,
    ReasoningDelta,
)

# What a model writes must not move the cursor, ring, or name the window.
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
# Chinese and Japanese have no spaces to wait for: a character is a piece of its own, with the signs
# that no line begins with.
_WIDE = "\u2e80-\ua4cf\uf900-\ufaff\ufe30-\ufe4f\uff00-\uff60\U00020000-\U0003fffd"
_SIGNS = "。、，．！？：；」』）】》…"
_PIECES = re.compile(rf"\n|[^\S\n]+|(?:[{_WIDE}]|[^\s{_WIDE}]+)[{_SIGNS}]*")


class WordWrap:
    """Text that comes in pieces, broken at words. The last word is held until it is whole,
    in Chinese and Japanese the last character."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._column = 0
        self._held = ""

    def add(self, text: str) -> str:
        """What can be shown now."""
        pieces = _PIECES.findall(self._held + text)
        # A piece goes on as long as nothing follows; spaces wait for the word behind them.
        keep = 1
        if len(pieces) > 1 and pieces[-2].isspace() and "\n" not in pieces[-2]:
            keep = 2
        if not pieces or pieces[-1] == "\n":
            keep = 0
        self._held = "".join(pieces[len(pieces) - keep :])
        return self._lay(pieces[: len(pieces) - keep])

    def end(self) -> str:
        """The rest, without spaces at its end."""
        pieces = _PIECES.findall(self._held.rstrip())
        self._held = ""
        return self._lay(pieces)

    def _lay(self, pieces: list[str]) -> str:
        out = ""
        for index, piece in enumerate(pieces):
            if piece == "\n":
                self._column = 0
                out += piece
                continue
            following = pieces[index + 1] if index + 1 < len(pieces) else ""
            needed = cell_len(piece) + (cell_len(following) if piece.isspace() else 0)
            if self._column and self._column + needed > self._width:
                out += "\n"
                self._column = 0
                if piece.isspace():  # the break stands for it
                    continue
            out += piece
            self._column += cell_len(piece)
        return out


def what_is_missing(completed: AnswerCompleted) -> str | None:
    """Why an answer is not whole; None if it is."""
    if completed.finish_reason == "length":
        return "cut off at the limit of tokens"
    return None if completed.finish_reason == "stop" else completed.finish_reason


class AnswerDisplay:
    """`with AnswerDisplay(console) as display: display.show(event)` for each event.

    On a terminal: a spinner until there is text, thoughts dim, and below the answer what it took.
    """

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._clock = clock
        self._status: Status | None = None
        self._wrap = WordWrap(console.width)
        self._style = ""
        self._asked = 0.0
        self._first: float | None = None
        self._open = False  # a line is begun

    def show(self, event: AnswerEvent) -> None:
        """Take one event of the answer onto the screen."""
        if not self._console.is_terminal:
            if isinstance(event, AnswerRestarted) and self._open:
                print("\n", file=self._console.file)  # all that can be done about what is written
            if isinstance(event, AnswerDelta):
                print(event.text, end="", flush=True, file=self._console.file)
                self._open = True
            return
        match event:
            case ReasoningDelta():
                self._write(event.text, "dim italic")
            case AnswerDelta():
                self._write(event.text, "")
            case AnswerRestarted():
                self._end_line()
                self._console.print(Text(f"{event.reason}; asking again", style="yellow"))
            case AnswerCompleted():
                self._end_line()
                self._console.print(Text(self._summary(event), style="dim"))

    def _write(self, text: str, style: str) -> None:
        self._stop_waiting()
        if self._first is None:
            self._first = self._clock()
        if style != self._style:
            self._end_line()
            self._style = style
        self._print(self._wrap.add(_CONTROLS.sub("", text.expandtabs(4))))

    def _print(self, text: str) -> None:
        if text:
            self._console.print(Text(text, style=self._style), end="", soft_wrap=True)
            self._open = not text.endswith("\n")

    def _end_line(self) -> None:
        self._stop_waiting()
        self._print(self._wrap.end())
        self._wrap = WordWrap(self._console.width)  # it may have been resized
        if self._open:
            self._console.out("")
            self._open = False

    def _summary(self, completed: AnswerCompleted) -> str:
        now = self._clock()
        words = [f"{now - self._asked:.1f} s"]
        if self._first is not None:
            words.append(f"first text after {self._first - self._asked:.2f} s")
        if (usage := completed.usage) is not None:
            words.append(f"{usage.output} tokens")
            words.append(f"{usage.cached} of {usage.prompt} prompt tokens from the cache")
        if (missing := what_is_missing(completed)) is not None:
            words.append(missing)
        return ", ".join(words)

    def _stop_waiting(self) -> None:
        if self._status is not None:
            self._status.stop()
            self._status = None

    def __enter__(self) -> AnswerDisplay:
        self._asked = self._clock()
        if self._console.is_terminal:
            self._status = self._console.status(Text("thinking", style="dim"))
            self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop_waiting()
        if self._console.is_terminal:
            self._end_line()
        elif self._open:
            self._console.out("")
