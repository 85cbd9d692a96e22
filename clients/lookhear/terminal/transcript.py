"""Live text on a terminal: committed text firm, provisional text dim; plain lines when piped."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.live import Live
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from lookhear.live.events import (
    Event,
    Provisional,
    Reconnecting,
    SessionReady,
    SpeechStarted,
    TextDelta,
    TurnCompleted,
    TurnFailed,
)
from lookhear.terminal.status_line import StatusLine, clock


@dataclass(slots=True)
class _Turn:
    start: float = 0.0
    committed: str = ""
    provisional: str = ""
    problem: str = ""
    done: bool = False


class _Tail:
    """The last lines of something that may not fit the screen, and a line below it."""

    def __init__(self, above: Group, below: StatusLine | None) -> None:
        self._above = above
        self._below = below

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        unbounded = options.update(height=None)
        lines = console.render_lines(self._above, unbounded, pad=False)
        room = max(1, console.height - 4)
        for line in lines[-room:]:
            yield from line
            yield Segment.line()
        if self._below is not None:
            yield Segment.line()
            yield self._below.render(options.max_width)


class LiveTranscript:
    """`with LiveTranscript(console) as transcript: transcript.show(event)` for each event.

    status: on a terminal, is told the events too and shown below the text. notes: where a lost
    connection is told of; by default stderr if the text is piped. now: seconds, as
    `time.monotonic`.
    """

    def __init__(
        self,
        console: Console,
        status: StatusLine | None = None,
        notes: Console | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._console = console
        self._status = status
        self._notes = notes or (console if console.is_terminal else Console(stderr=True))
        self._now = now
        self._was_connected = False
        self._lost_at: float | None = None  # when the connection was, until it is back
        self._lost_seconds = 0.0  # of sound, meanwhile
        self._turns: dict[str, _Turn] = {}  # not printed yet, in the order of speaking
        self._live = (
            Live(
                console=console,
                get_renderable=self._picture,
                refresh_per_second=12,
                transient=True,
                vertical_overflow="visible",
            )
            if console.is_terminal
            else None
        )

    def show(self, event: Event) -> None:
        """Take one event into the picture.

        Finished turns scroll up in the order of speaking, open ones stay below.
        """
        if self._status is not None:
            self._status.take(event)
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
                if event.said:
                    said = (f"{part.speaker}: {part.text.strip()}" for part in event.said)
                    turn.committed = "\n".join(said)
            case TurnFailed():
                turn = self._turn(event.item_id)
                turn.problem, turn.done = f" failed: {event.message}", True
            case Reconnecting():
                for item_id in event.superseded:
                    self._turns.pop(item_id, None)
                self._lost(event)
            case SessionReady() if self._lost_at is not None:
                self._back(self._now() - self._lost_at)
        self._was_connected = self._was_connected or not isinstance(event, Reconnecting)
        self._print_done()

    def _lost(self, event: Reconnecting) -> None:
        self._lost_seconds += event.lost
        if self._lost_at is None:
            self._lost_at = self._now()
            lost = "connection lost: " if self._was_connected else ""
            self._note(f"{lost}{event.reason}; {_plan(event)}", "yellow")

    def _back(self, seconds: float) -> None:
        lost = f"{self._lost_seconds:.0f} s of sound are" if self._lost_seconds else "nothing is"
        self._note(f"connected again after {seconds:.1f} s, {lost} lost", "green")
        self._lost_at, self._lost_seconds = None, 0.0

    def _note(self, text: str, style: str) -> None:
        self._notes.print(Text(text, style=style), soft_wrap=True)

    def _turn(self, item_id: str) -> _Turn:
        return self._turns.setdefault(item_id, _Turn())

    def _print_done(self) -> None:
        """All done turns before which nobody is still speaking."""
        for item_id, turn in list(self._turns.items()):
            if not turn.done:
                return
            del self._turns[item_id]
            if turn.committed.strip() or turn.problem:
                self._print(turn, Text(turn.problem, style="red"))

    def _print(self, turn: _Turn, rest: Text) -> None:
        text = _text(turn.committed, rest)
        if self._console.is_terminal:
            self._console.print(_line(turn.start, text))
        else:
            self._console.print(text, soft_wrap=True)  # piped: one line per turn, never wrapped

    def _picture(self) -> _Tail:
        """Also called from the thread that refreshes the screen."""
        turns = [t for t in list(self._turns.values()) if t.committed or t.provisional]
        lines = [
            _line(t.start, _text(t.committed, Text(t.provisional, style="dim italic")))
            for t in turns
        ]
        return _Tail(Group(*lines), self._status)

    def __enter__(self) -> LiveTranscript:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()
        for turn in self._turns.values():  # only where it was broken off
            if turn.committed.strip():
                self._print(turn, Text(" …", style="dim"))
        self._turns.clear()


def _plan(event: Reconnecting) -> str:
    """What is done about it."""
    soon = f" in {event.delay:.0f} s" if event.delay >= 1.0 else ""
    most = f", for {event.patience:.0f} s at most" if event.patience >= 1.0 else ""
    return f"trying again{soon}{most}"


def _text(committed: str, rest: Text) -> Text:
    if not committed:
        rest = Text(rest.plain.lstrip(), style=rest.style)
    return Text.assemble(Text(committed.lstrip(), style="bold"), rest)


def _line(start: float, text: Text) -> Table:
    """A turn as a row: when it began, and its text wrapped beside it."""
    line = Table.grid(padding=(0, 2))
    line.add_column(justify="right", style="cyan", min_width=5)
    line.add_column()
    line.add_row(clock(start), text)
    return line
