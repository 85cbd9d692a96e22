"""Live text on a terminal: committed text firm, provisional text dim; plain lines when piped."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from lookhear.events import (
    Event,
    Provisional,
    Reconnecting,
    SpeechStarted,
    TextDelta,
    TurnCompleted,
    TurnFailed,
)
from lookhear.server import Progress as Report


def clock(seconds: float) -> str:
    """75.4 -> `1:15`, 3675 -> `1:01:15`."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


@dataclass(slots=True)
class _Turn:
    start: float = 0.0
    committed: str = ""
    provisional: str = ""
    problem: str = ""
    done: bool = False


class LiveTranscript:
    """`with LiveTranscript(console) as transcript: transcript.show(event)` for each event."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._turns: dict[str, _Turn] = {}  # not printed yet, in the order of speaking
        self._live = (
            Live(console=console, refresh_per_second=12, transient=True)
            if console.is_terminal
            else None
        )

    def show(self, event: Event) -> None:
        """Take one event into the picture.

        Finished turns scroll up in the order of speaking, open ones stay below.
        """
        match event:
            case SpeechStarted():
                self._turn(event.item_id).start = event.start
            case TextDelta():
                turn = self._turn(event.item_id)
                turn.committed += event.text
                turn.provisional = ""  # it guessed what follows the text before this delta
            case Provisional():
                self._turn(event.item_id).provisional = event.text
            case TurnCompleted():
                turn = self._turn(event.item_id)
                turn.start, turn.committed, turn.done = event.start, event.text, True
            case TurnFailed():
                turn = self._turn(event.item_id)
                turn.problem, turn.done = f" failed: {event.message}", True
            case Reconnecting():
                for item_id in event.superseded:
                    self._turns.pop(item_id, None)
                self._print(
                    Text(f"{event.reason}; trying again in {event.delay:g} s", style="yellow")
                )
        self._print_done()
        if self._live is not None:
            self._live.update(self._picture())

    def _turn(self, item_id: str) -> _Turn:
        return self._turns.setdefault(item_id, _Turn())

    def _print_done(self) -> None:
        """All done turns before which nobody is still speaking."""
        for item_id, turn in list(self._turns.items()):
            if not turn.done:
                return
            del self._turns[item_id]
            if turn.committed.strip() or turn.problem:
                self._print(_line(turn.start, turn.committed, Text(turn.problem, style="red")))

    def _print(self, line: Table | Text) -> None:
        if self._console.is_terminal:
            self._console.print(line)
        elif isinstance(line, Table):
            # Piped: one line per turn, never wrapped.
            cells = [next(iter(column.cells)) for column in line.columns]
            self._console.print(cells[-1], soft_wrap=True)
        else:
            self._console.print(line, soft_wrap=True)

    def _picture(self) -> Group:
        turns = [turn for turn in self._turns.values() if turn.committed or turn.provisional]
        guess = "dim italic"
        return Group(
            *(_line(t.start, t.committed, Text(t.provisional, style=guess)) for t in turns)
        )

    def __enter__(self) -> LiveTranscript:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.stop()


def _line(start: float, committed: str, rest: Text | None = None) -> Table:
    """A turn as a row: when it began, and its text wrapped beside it."""
    line = Table.grid(padding=(0, 2))
    line.add_column(justify="right", style="cyan", min_width=5)
    line.add_column()
    text = Text(committed.lstrip(), style="bold")
    if rest is not None:
        if not committed:
            rest = Text(rest.plain.lstrip(), style=rest.style)
        text = Text.assemble(text, rest)
    line.add_row(clock(start), text)
    return line


@contextmanager
def progress(console: Console, title: str) -> Iterator[Report]:
    """A bar for something that may take longer than a second; yields what to report to.

    Where there is no terminal, a line for each stage.
    """
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TimeElapsedColumn(),
    )
    if not console.is_terminal:
        yield _lines(console, title)
        return
    with Progress(*columns, console=console, transient=True) as bars:
        task = bars.add_task(title, total=None)

        def report(stage: str, share: float | None) -> None:
            bars.update(
                task,
                description=stage,
                total=None if share is None else 1.0,
                completed=0.0 if share is None else share,
            )

        yield report


def _lines(console: Console, title: str) -> Report:
    said = title

    def report(stage: str, share: float | None) -> None:
        nonlocal said
        if stage != said:
            said = stage
            console.print(f"{stage} ...", soft_wrap=True)

    console.print(f"{title} ...", soft_wrap=True)
    return report
