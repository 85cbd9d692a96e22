"""Turns of semantic_vad: what sounds like an end is one, what does not waits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from lookhear.gateway.realtime.listening.audio_intake import Heard
from lookhear.gateway.realtime.protocol.outputs import ResetIntake
from lookhear.media.voice.vad import SpeechPaused, SpeechStarted
from tests.gateway.scripted import Script

SECOND = 16_000


def update(script: Script, **detection: Any) -> dict[str, Any]:
    session: dict[str, Any] = {
        "audio": {"input": {"turn_detection": detection}},
        "lookhear": {},
    }
    [frame] = script.update(session)
    echo: dict[str, Any] = frame["session"]["lookhear"]
    return echo


def listening(eagerness: str = "auto", *, hears_ends: bool = True) -> Script:
    script = Script(hears_ends=hears_ends)
    echo = update(script, type="semantic_vad", eagerness=eagerness)
    assert echo["turn_end"] == ("sound" if hears_ends else "silence")
    return script


def pauses(script: Script, over: float | None, milliseconds: int = 200) -> list[str]:
    """Somebody speaks for a second and pauses. -> kinds of frames about it."""
    protocol = script.protocol
    one = np.zeros(SECOND, np.float32)
    protocol.hear(Heard(one, [SpeechStarted(0)], SECOND, True), now=1.0)
    pause = SpeechPaused(SECOND + 16 * milliseconds, milliseconds)
    quiet = np.zeros(16 * milliseconds + 100, np.float32)
    outputs = protocol.hear(Heard(quiet, [pause], SECOND, True, over=over), now=1.2)
    resets = [output for output in outputs if isinstance(output, ResetIntake)]
    assert resets in ([], [ResetIntake(pause.sample)])
    assert bool(resets) == (protocol.turns_committed == 1)
    return ["ended"] if resets else []


def test_what_surely_is_over_ends_at_once() -> None:
    assert pauses(listening(), 0.9) == ["ended"]


def test_what_is_in_doubt_waits() -> None:
    assert pauses(listening(), 0.6) == []
    assert pauses(listening(), 0.6, 1000) == ["ended"]
    assert pauses(listening(), 0.1, 1000) == []
    assert pauses(listening("low"), 0.9) == []


def test_who_could_not_be_judged_is_ended_by_silence() -> None:
    assert pauses(listening(), None) == []
    assert pauses(listening(), None, 900) == ["ended"]


def test_a_server_that_cannot_tell_says_so_and_ends_by_silence() -> None:
    script = listening(hears_ends=False)
    assert script.protocol.settings.vad().silence_duration_ms == 900
    assert script.protocol.settings.vad().pauses_ms == ()


def test_only_semantic_detection_says_what_ends_a_turn() -> None:
    script = listening()
    assert "turn_end" not in update(script, type="server_vad")
    tuned = replace(script.protocol.settings, turn_detection=None)
    assert tuned.turn_end is None
