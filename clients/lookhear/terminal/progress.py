"""How far something has come that takes its time, and how long it will: a bar on a terminal, lines
elsewhere."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from datetime import timedelta
from typing import IO

from rich.console import Console
from rich.file_proxy import FileProxy
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

EVERY = 15.0  # seconds between two lines about what takes minutes

Report = Callable[[str, float | None], None]
"""Told what is going on and the share done, None if that is not known."""


@contextmanager
def progress(console: Console, title: str) -> Iterator[Report]:
    """A bar for something that may take longer than a second; yields what to report to.

    Where there is no terminal, a line for each stage.
    """
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),  # names of files may hold brackets
        BarColumn(bar_width=24),
        TextColumn("{task.fields[percent]}"),
        TimeElapsedColumn(),
        _Left(),
    )
    if not console.is_terminal:
        yield _lines(console, title)
        return
    # On a terminal what is printed stands above the bar; elsewhere it must get where it is to go.
    above = redirect_stdout(_Above(console, sys.stdout)) if sys.stdout.isatty() else nullcontext()
    bars = Progress(*columns, console=console, transient=True, redirect_stdout=False)
    with bars, above:
        task = bars.add_task(title, total=None, percent="")

        def report(stage: str, share: float | None) -> None:
            total = None if share is None else 1.0
            done, percent = share or 0.0, "" if share is None else f"{100 * share:3.0f} %"
            bars.update(task, description=stage, total=total, completed=done, percent=percent)

        yield report


class _Above(FileProxy):
    """Lines that are printed while there is a bar: above it, and as they are. Rich's own way breaks
    them at the terminal's width, of which JSON knows nothing."""

    def __init__(self, console: Console, file: IO[str]) -> None:
        super().__init__(console, file)
        self._console = console
        self._line = ""

    def write(self, text: str) -> int:
        *lines, self._line = (self._line + text).split("\n")
        for line in lines:
            self._console.print(Text(line), soft_wrap=True)
        return len(text)


@contextmanager
def counting(
    console: Console, title: str, total: int, *, every: float = EVERY
) -> Iterator[Callable[[], None]]:
    """How many of a number are done; yields what to call for each. every: seconds from one line to
    the next where there is no terminal."""
    if console.is_terminal:
        columns = TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn()
        with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as bars:
            task = bars.add_task(title, total=total)
            yield lambda: bars.advance(task)
        return
    done: list[None] = []
    is_over = threading.Event()

    def tell() -> None:
        while not is_over.wait(every):
            console.print(f"{title}: {len(done)} of {total} done", soft_wrap=True, markup=False)

    console.print(f"{title} ...", soft_wrap=True, markup=False)
    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield lambda: done.append(None)
    finally:
        is_over.set()
        teller.join()


class _Left(TimeRemainingColumn):
    """The time that is left, once something is known of it."""

    def render(self, task: Task) -> Text:
        """Of one bar."""
        left = task.time_remaining
        if task.total is None or left is None:
            return Text("")
        return Text(f"{timedelta(seconds=round(left))} left", style="progress.remaining")


def _lines(console: Console, title: str) -> Report:
    said = title

    def report(stage: str, share: float | None) -> None:
        nonlocal said
        if stage != said:
            said = stage
            console.print(f"{stage} ...", soft_wrap=True, markup=False)

    console.print(f"{title} ...", soft_wrap=True, markup=False)
    return report
