"""What a person sees: firm and dim text, in the order of speaking, one line per turn when piped."""

from __future__ import annotations

import io

from rich.console import Console

from lookhear.display import LiveTranscript, progress
from lookhear.events import (
    Event,
    Provisional,
    Reconnecting,
    SpeechStarted,
    TextDelta,
    TurnCompleted,
    TurnFailed,
)


def shown(events: list[Event], *, terminal: bool) -> str:
    out = io.StringIO()
    with LiveTranscript(Console(file=out, force_terminal=terminal, width=60)) as transcript:
        for event in events:
            transcript.show(event)
    return out.getvalue()


EVENTS: list[Event] = [
    SpeechStarted("a", 1.0),
    TextDelta("a", " One"),
    Provisional("a", " too"),
    SpeechStarted("b", 65.0),
    TurnCompleted("b", " Three.", 65.0, 66.0),  # the short turn is done first
    TurnCompleted("a", " One two.", 1.0, 2.0),
    TurnCompleted("c", " ", 70.0, 71.0),
    TurnFailed("d", "server_error", "no more memory"),
]


def test_piped_text_is_lines_in_the_order_of_speaking() -> None:
    assert shown(EVENTS, terminal=False).splitlines() == [
        "One two.",
        "Three.",
        "failed: no more memory",
    ]


def test_a_long_turn_is_one_line_when_piped() -> None:
    text = "word " * 40
    assert shown([TurnCompleted("a", text, 0, 9)], terminal=False) == text.lstrip() + "\n"


def test_a_terminal_shows_when_it_was_said() -> None:
    picture = shown(EVENTS, terminal=True)
    assert "0:01" in picture and "1:05" in picture and "One two." in picture


def test_void_text_goes_away() -> None:
    lost = Reconnecting(1, 0.5, "closed with 1011", ("a",), 1.0)
    events = [*EVENTS[:3], lost, TurnCompleted("x", "again", 1.0, 2.0)]
    lines = shown(events, terminal=False).splitlines()
    assert lines == ["closed with 1011; trying again in 0.5 s", "again"]


def test_progress_without_a_terminal_is_a_line_per_stage() -> None:
    out = io.StringIO()
    with progress(Console(file=out), "starting") as report:
        report("loading", None)
        report("loading", 0.5)
        report("warming up", None)
    assert out.getvalue() == "starting ...\nloading ...\nwarming up ...\n"
