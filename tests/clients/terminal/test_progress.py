"""How far something has come: percent and what is left on a terminal, lines elsewhere."""

from __future__ import annotations

import io
import re
import sys
import threading

import pytest
from rich.console import Console
from rich.progress import Progress

from lookhear.terminal.progress import _Left, counting, progress


class Terminal(io.StringIO):
    """Stdout that is one."""

    def isatty(self) -> bool:
        return True


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)


def test_a_terminal_is_told_percent() -> None:
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, width=120)
    with progress(console, "transcribing a.wav") as report:
        report("transcribing a.wav", None)
        report("transcribing a.wav", 0.42)
    shown = plain(file.getvalue())
    assert "transcribing a.wav" in shown and " 42 %" in shown


def test_what_is_printed_on_a_terminal_stands_above_as_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """JSON that is broken into lines is none."""
    file, line = io.StringIO(), '{"text": ":eye: [b]%s"}' % ("said it, 'twice' " * 9)
    monkeypatch.setattr(sys, "stdout", Terminal())
    with progress(Console(file=file, force_terminal=True, width=60), "transcribing") as report:
        print(line, flush=True)
        report("transcribing", 0.5)
    assert line in plain(file.getvalue()).splitlines()


def test_what_is_left_is_told_once_it_is_known() -> None:
    now = [0.0]
    bars = Progress(_Left(), get_time=lambda: now[0], auto_refresh=False)
    task = bars.add_task("x", total=None)
    column = _Left()
    assert str(column.render(bars.tasks[0])) == ""
    for second in range(4):
        now[0] = float(second)
        bars.update(task, total=1.0, completed=0.1 * second)
    assert str(column.render(bars.tasks[0])) == "0:00:07 left"


def test_elsewhere_there_is_a_line_for_each_stage() -> None:
    file = io.StringIO()
    with progress(Console(file=file, width=120), "one") as report:
        for share in (0.1, 0.2):
            report("one", share)
        report("two", 0.5)
    assert file.getvalue() == "one ...\ntwo ...\n"


class Awaited(io.StringIO):
    """What is written, until a text is there."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text
        self.is_there = threading.Event()

    def write(self, text: str) -> int:
        count = super().write(text)
        if self._text in self.getvalue():
            self.is_there.set()
        return count


def test_elsewhere_there_is_a_line_now_and_then_of_how_many_are_done() -> None:
    file = Awaited("1 of 4 done")
    with counting(Console(file=file), "4 sessions, 300 s", 4, every=0.01) as advance:
        advance()
        assert file.is_there.wait(10)
    lines = file.getvalue().splitlines()
    assert lines[0] == "4 sessions, 300 s ..."
    assert lines[-1] == "4 sessions, 300 s: 1 of 4 done"


def test_a_terminal_has_a_bar_of_how_many_are_done() -> None:
    file = io.StringIO()
    with counting(Console(file=file, force_terminal=True, width=120), "sessions", 4) as advance:
        advance()
    assert "1/4" in plain(file.getvalue())
