"""How far something has come: percent and what is left on a terminal, lines elsewhere."""

from __future__ import annotations

import io
import re

from rich.console import Console
from rich.progress import Progress

from lookhear.terminal.progress import _Left, progress


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
