"""The line below live text: whether it listens, how loud it is, and how late the text comes."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from enum import StrEnum

from rich.text import Text

from lookhear.live.events import (
    Event,
    Reconnecting,
    SessionReady,
    SpeechStarted,
    SpeechStopped,
    TextDelta,
    TurnCompleted,
)
from lookhear.live.turns import ServerVad
from lookhear.sources.level_meter import SILENT, LevelMeter

_CELLS = 10  # of the level meter
_EIGHTHS = " ▏▎▍▌▋▊▉█"
_LOUD, _CLIPPING = -12.0, -3.0  # dB


class _Phase(StrEnum):
    """Of a session, in the words that are shown."""

    CONNECTING = "connecting"
    LISTENING = "listening"
    FINISHING = "finishing"  # nothing more is recorded; the last text is waited for


_STYLES = {_Phase.CONNECTING: "yellow", _Phase.LISTENING: "green", _Phase.FINISHING: "dim"}


def clock(seconds: float) -> str:
    """75.4 -> `1:15`, 3675 -> `1:01:15`."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


class StatusLine:
    """Follows a live transcription, and shows in one line how it goes.

    hint: how to end it. now: seconds, as `time.monotonic`.

    first, final: seconds from the beginning of speech to its first text, and from its end to the
    whole text of the turn, silence included, of each turn.
    """

    def __init__(
        self,
        meter: LevelMeter,
        hint: str = "Ctrl-C ends",
        vad: ServerVad = ServerVad(),  # noqa: B008 (frozen)
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.meter = meter
        self._hint = hint
        self._padding = vad.prefix_padding_ms / 1000
        self._silence = vad.silence_duration_ms / 1000
        self._now = now
        self._phase = _Phase.CONNECTING
        self._back_at: float | None = None  # when a lost connection is sought again
        self._speaking: dict[str, float] = {}  # where the turns without text began
        self._stopped: set[str] = set()
        self._talking: set[str] = set()
        self._language: str | None = None
        self.turns = 0
        self.first: list[float] = []
        self.final: list[float] = []

    def finishing(self) -> None:
        """Nothing more is recorded."""
        self._phase, self._hint = _Phase.FINISHING, "Ctrl-C again gives up"

    def take(self, event: Event) -> None:
        """Follow one event of the transcription."""
        match event:
            case SessionReady():
                self._back_at = None
                if self._phase is _Phase.CONNECTING:
                    self._phase = _Phase.LISTENING
            case SpeechStarted():
                self._talking.add(event.item_id)
                self._speaking[event.item_id] = event.start + self._padding
            case TextDelta() if event.item_id in self._speaking:
                late = self.meter.since(self._speaking.pop(event.item_id))
                self.first += [] if late is None else [late]
            case SpeechStopped():
                self._talking.discard(event.item_id)
                self._stopped.add(event.item_id)
            case TurnCompleted():
                self._completed(event)
            case Reconnecting():
                self._back_at = self._now() + event.delay
                for item_id in event.superseded:
                    self._forget(item_id)

    def _completed(self, event: TurnCompleted) -> None:
        if event.text.strip():
            self.turns += 1
            self._language = event.language or self._language
            late = self.meter.since(event.end - self._silence)
            if event.item_id in self._stopped and late is not None:
                self.final.append(late)
        self._forget(event.item_id)

    def _forget(self, item_id: str) -> None:
        self._speaking.pop(item_id, None)
        self._talking.discard(item_id)
        self._stopped.discard(item_id)

    def render(self, width: int) -> Text:
        """One line; what does not fit is left out, the least important first."""
        parts = [
            (0, self._activity()),
            (1, Text(clock(self.meter.seconds).rjust(5))),
            (2, self._level()),
            (4, Text(self._language or "", style="cyan")),
            (6, _seconds("first", self.first)),
            (5, _seconds("final", self.final)),
            (3, Text(self._hint, style="dim")),
        ]
        shown: set[int] = set()
        room = width
        for rank, part in sorted(parts, key=lambda entry: entry[0]):
            if part and part.cell_len <= room:
                shown.add(rank)
                room -= part.cell_len + 2
        return Text("  ").join(part for rank, part in parts if rank in shown)

    def _activity(self) -> Text:
        back_at = self._back_at  # once: what redraws the screen is another thread
        if back_at is not None:
            seconds = max(0.0, back_at - self._now())
            wait = f" in {seconds:.0f} s" if seconds >= 1 else ""
            return Text(f"● reconnecting{wait}", style="yellow")
        if self._phase is _Phase.LISTENING and self._talking:
            return Text("● hearing  ", style="bold red")  # as wide as when nobody speaks
        return Text(f"● {self._phase}", style=_STYLES[self._phase])

    def _level(self) -> Text:
        level = self.meter.level
        eighths = round((level - SILENT) / -SILENT * _CELLS * 8)
        full, rest = divmod(min(max(eighths, 0), _CELLS * 8), 8)
        bar = "█" * full + (_EIGHTHS[rest] if rest else "")
        style = "red" if level > _CLIPPING else "yellow" if level > _LOUD else "green"
        return Text.assemble(("▕", "dim"), (bar.ljust(_CELLS), style), ("▏", "dim"))

    def summary(self) -> str:
        """What there was, when it is over."""
        turns = "1 turn" if self.turns == 1 else f"{self.turns} turns"
        words = [f"{clock(self.meter.seconds)} heard", turns]
        for name, values in (("first text", self.first), ("final text", self.final)):
            if values:
                words.append(f"{name} after {statistics.median(values):.1f} s")
        return ", ".join(words)


def _seconds(name: str, values: list[float]) -> Text:
    """The newest of them."""
    return Text.assemble((f"{name} ", "dim"), f"{values[-1]:.1f} s") if values else Text()
