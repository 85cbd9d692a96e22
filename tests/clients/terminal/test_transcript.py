"""What a person sees: firm and dim text, in the order of speaking, one line per turn when piped."""

from __future__ import annotations

import io
import itertools

import pytest
from rich.console import Console

from lookhear.live.events import (
    Event,
    Provisional,
    Reconnecting,
    Said,
    SessionReady,
    SpeechStarted,
    TextDelta,
    TurnCompleted,
    TurnFailed,
)
from lookhear.terminal.progress import progress
from lookhear.terminal.transcript import LiveTranscript


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


def test_a_turn_of_two_speakers_has_a_line_for_each_part() -> None:
    said = (Said("A", " One", 1.0, 1.4), Said("B", " two.", 1.4, 2.0))
    event = TurnCompleted("a", " One two.", 1.0, 2.0, said=said)
    assert shown([event], terminal=False).splitlines() == ["A: One", "B: two."]


def test_a_long_turn_is_one_line_when_piped() -> None:
    text = "word " * 40
    assert shown([TurnCompleted("a", text, 0, 9)], terminal=False) == text.lstrip() + "\n"


def test_a_terminal_shows_when_it_was_said() -> None:
    picture = shown(EVENTS, terminal=True)
    assert "0:01" in picture and "1:05" in picture and "One two." in picture


def test_void_text_goes_away_and_what_was_lost_is_said_beside() -> None:
    out, notes = io.StringIO(), io.StringIO()
    lost = [Reconnecting(number, 0.5, "closed with 1011", ("a",), 1.0) for number in (1, 2, 3)]
    back, again = SessionReady("s", None), TurnCompleted("x", "again", 1.0, 2.0)
    seconds = itertools.count()
    with LiveTranscript(
        Console(file=out), notes=Console(file=notes), now=lambda: float(next(seconds))
    ) as transcript:
        for event in (*EVENTS[:3], *lost, back, again, back):
            transcript.show(event)
    assert out.getvalue() == "again\n"
    assert notes.getvalue().splitlines() == [
        "connection lost: closed with 1011; trying again",
        "connected again after 1.0 s, nothing is lost",
    ]


def test_when_and_for_how_long_it_is_tried_again_is_told_in_one_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lost = Reconnecting(1, 7.2, "all places are taken", (), 0.0, patience=60.0)
    assert shown([lost, lost], terminal=False) == ""
    told = capsys.readouterr().err
    assert told == "all places are taken; trying again in 7 s, for 60 s at most\n"


def test_sound_that_had_to_be_given_up_is_named() -> None:
    lost = Reconnecting(1, 0.5, "closed with 1011", ("a",), 1.0, lost=12.0)
    picture = shown([lost, SessionReady("s", None)], terminal=True)
    assert "12 s of sound are lost" in picture


def test_what_is_printed_beside_a_bar_gets_where_it_is_to_go(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As in `lookhear transcribe talk.wav > talk.txt` on a terminal."""
    terminal = io.StringIO()
    with progress(Console(file=terminal, force_terminal=True), "transcribing") as report:
        report("transcribing", 0.5)
        print("Hello.")
    assert capsys.readouterr().out == "Hello.\n"
    assert "transcribing" in terminal.getvalue() and "Hello." not in terminal.getvalue()


def test_progress_without_a_terminal_is_a_line_per_stage() -> None:
    out = io.StringIO()
    with progress(Console(file=out), "starting") as report:
        report("loading", None)
        report("loading", 0.5)
        report("warming up", None)
    assert out.getvalue() == "starting ...\nloading ...\nwarming up ...\n"
