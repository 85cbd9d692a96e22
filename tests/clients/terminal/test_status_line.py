"""The line below the text, and the meter it reads."""

from __future__ import annotations

import io

import numpy as np
import pytest
from rich.cells import cell_len
from rich.console import Console

from lookhear.live.events import (
    Event,
    Provisional,
    Reconnecting,
    SessionReady,
    SpeechStarted,
    SpeechStopped,
    TextDelta,
    TurnCompleted,
)
from lookhear.sources.level_meter import SILENT, LevelMeter
from lookhear.terminal.status_line import StatusLine, clock
from lookhear.terminal.transcript import LiveTranscript


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def tone(seconds: float, amplitude: float) -> bytes:
    """A square wave."""
    samples = np.full(round(seconds * 24_000), amplitude * 32_767)
    samples[::2] *= -1
    return samples.astype("<i2").tobytes()


def test_the_level_is_that_of_the_newest_sound() -> None:
    now = Clock()
    meter = LevelMeter(now)
    assert meter.level == SILENT
    meter.passed(tone(1.0, 0.001) + tone(0.1, 0.5))
    assert meter.level == pytest.approx(-6.02, abs=0.01)
    meter.passed(tone(0.02, 1.0))
    assert meter.level == pytest.approx(0.0, abs=0.01)
    now.now += 1.0
    assert meter.level == SILENT, "nothing comes any more"
    meter.passed(bytes(960))
    assert meter.level == SILENT and meter.seconds == pytest.approx(1.14)


def test_when_a_moment_came() -> None:
    now = Clock()
    meter = LevelMeter(now)
    for _ in range(10):
        now.now += 0.1
        meter.passed(tone(0.1, 0.1))
    now.now += 1.0
    assert meter.since(0.95) == pytest.approx(1.0)
    assert meter.since(0.05) == pytest.approx(1.9)
    assert meter.since(1.5) is None


def told(status: StatusLine, now: Clock) -> None:
    """A turn of two seconds, its text 0.4 s after its beginning and 0.7 s after its end."""

    def speak(seconds: float) -> None:
        for _ in range(round(seconds * 50)):
            now.now += 0.02
            status.meter.passed(tone(0.02, 0.3))

    speak(0.4)
    status.take(SessionReady("s", "m"))
    status.take(SpeechStarted("a", 0.0))
    speak(0.3)
    status.take(TextDelta("a", " One"))
    speak(1.5)
    status.take(SpeechStopped("a", 2.0))
    status.take(TurnCompleted("a", " One two.", 0.0, 2.0, "en"))


def test_what_it_shows() -> None:
    now = Clock()
    status = StatusLine(LevelMeter(now), now=now)
    assert status.render(80).plain.startswith("● connecting")
    told(status, now)
    line = status.render(80).plain
    assert line.startswith("● listening") and "en" in line and "Ctrl-C ends" in line
    assert "first 0.4 s" in line and "final 0.7 s" in line and " 0:02 " in line
    assert status.summary() == (
        "0:02 heard, 1 turn, first text after 0.4 s, final text after 0.7 s"
    )
    status.take(SpeechStarted("b", 3.0))
    assert status.render(80).plain.startswith("● hearing")
    status.take(Reconnecting(1, 4.0, "closed with 1011", ("b",), 1.0))
    assert status.render(80).plain.startswith("● reconnecting in 4 s")
    now.now += 3.5
    assert status.render(80).plain.startswith("● reconnecting ")
    status.take(SessionReady("s", "m"))
    assert status.render(80).plain.startswith("● listening"), "the turn is void"
    status.finishing()
    assert "finishing" in status.render(80).plain and "gives up" in status.render(80).plain


def test_it_is_never_wider_than_the_screen() -> None:
    now = Clock()
    status = StatusLine(LevelMeter(now), now=now)
    told(status, now)
    for width in range(120):
        assert cell_len(status.render(width).plain) <= width
    assert status.render(25).plain.startswith("● listening   0:02")


def shown(events: list[Event], height: int) -> list[str]:
    """The screen before it ends, without colours."""
    out = io.StringIO()
    console = Console(
        file=out,
        force_terminal=True,
        width=60,
        height=height,
        color_system=None,
        legacy_windows=False,
    )
    transcript = LiveTranscript(console, StatusLine(LevelMeter()))
    for event in events:
        transcript.show(event)
    with console.capture() as capture:
        console.print(transcript._picture())
    return capture.get().splitlines()


def test_a_long_turn_shows_its_newest_lines() -> None:
    events: list[Event] = [SpeechStarted("a", 0.0), TextDelta("a", "word " * 200 + "newest")]
    events.append(Provisional("a", " guess"))
    lines = shown(events, height=10)
    assert len(lines) <= 9 and lines[-3].rstrip().endswith("newest guess")
    assert lines[-1].startswith("● connecting")


def test_what_was_broken_off_stays() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=60, color_system=None)
    with LiveTranscript(console, StatusLine(LevelMeter())) as transcript:
        transcript.show(TextDelta("a", " To be"))
        transcript.show(Provisional("a", " or"))
    assert out.getvalue().rstrip().endswith("To be …")


def test_clock() -> None:
    assert [clock(s) for s in (0, 9.9, 75, 3675)] == ["0:00", "0:09", "1:15", "1:01:15"]
