"""Turns of semantic_vad: what sounds like an end is one, what does not waits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from lookhear.engine.messages import StartTurn, TextProvisional
from lookhear.gateway.realtime.listening.audio_intake import Heard
from lookhear.gateway.realtime.listening.turn import HEARD
from lookhear.gateway.realtime.protocol.outputs import Output, ResetIntake, Send, Submit
from lookhear.media.voice.vad import SpeechPaused, SpeechStarted
from tests.gateway.scripted import SESSION, Script

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


def pauses(
    script: Script,
    sound: float | None,
    milliseconds: int = 200,
    words: float | None = None,
    text: str = "It is",
    closing: float | None = None,
) -> list[str]:
    """Somebody speaks for a second and pauses. words, closing: how probably a sentence ends there,
    as the engine has told by then of this text. -> kinds of frames about it."""
    protocol = script.protocol
    one = np.zeros(SECOND, np.float32)
    outputs = protocol.hear(Heard(one, [SpeechStarted(0)], SECOND, True), now=1.0)
    turn = started(outputs)
    end = SECOND + 16 * milliseconds
    if words is not None:
        heard = SECOND + HEARD
        protocol.engine(TextProvisional(SESSION, turn, text, heard, words, closing), now=1.1)
    pause = SpeechPaused(end, milliseconds)
    quiet = np.zeros(16 * milliseconds + 100, np.float32)
    outputs = protocol.hear(Heard(quiet, [pause], SECOND, True, over=sound), now=1.2)
    resets = [output for output in outputs if isinstance(output, ResetIntake)]
    assert resets in ([], [ResetIntake(pause.sample)])
    assert bool(resets) == (protocol.turns_committed == 1)
    return ["ended"] if resets else []


def started(outputs: Sequence[Output]) -> str:
    """The turn that the engine was told of."""
    [turn] = [
        output.message.turn
        for output in outputs
        if isinstance(output, Submit) and isinstance(output.message, StartTurn)
    ]
    return turn


def test_what_surely_is_over_ends_at_once() -> None:
    assert pauses(listening(), 0.97, words=0.9) == ["ended"]
    assert pauses(listening(), 0.9, words=0.8) == ["ended"]
    assert pauses(listening(), 0.9, words=0.8, closing=0.99) == ["ended"]
    assert pauses(listening(), 0.9, words=0.8, closing=0.7) == []


def test_an_open_phrase_is_none_whatever_sign_is_behind_it() -> None:
    assert pauses(listening(), 0.97, words=0.9, text="Please enter your.") == []
    assert pauses(listening(), 0.97, words=0.9, text="Please enter yours.") == ["ended"]


def test_an_exclamation_mark_leaves_it_to_the_sound() -> None:
    assert pauses(listening(), 0.5, words=0.98, text="¡Clave!") == []
    assert pauses(listening(), 0.97, words=0.98, text="¡Clave!") == ["ended"]
    assert pauses(listening(), 0.5, words=0.98, text="Clave.") == ["ended"]


def test_what_is_in_doubt_waits() -> None:
    assert pauses(listening(), 0.5) == []
    assert pauses(listening(), 0.5, 1340) == ["ended"]
    assert pauses(listening("low"), 0.97, words=0.1) == []


def test_words_are_waited_for_a_while() -> None:
    assert pauses(listening(), 0.97, 400) == []
    assert pauses(listening(), 0.97, 500) == ["ended"]


def test_words_that_go_on_are_waited_for() -> None:
    assert pauses(listening(), 0.95, words=0.0) == []
    assert pauses(listening(), 0.95, 1340, words=0.0) == ["ended"]
    assert pauses(listening(), 0.02, 1340, words=0.0) == []


def test_words_of_which_more_were_said_since_do_not_count() -> None:
    script = listening()
    protocol = script.protocol
    one = np.zeros(SECOND, np.float32)
    outputs = protocol.hear(Heard(one, [SpeechStarted(0)], SECOND, True), now=1.0)
    turn = started(outputs)
    protocol.engine(TextProvisional(SESSION, turn, "It is", SECOND - 1, 0.0), now=1.1)
    pause = SpeechPaused(SECOND + 3200, 200)
    quiet = np.zeros(3300, np.float32)
    protocol.hear(Heard(quiet, [pause], SECOND, True, over=0.97), now=1.2)
    assert protocol.turns_committed == 0
    pause = SpeechPaused(SECOND + 8000, 500)
    more = np.zeros(4800, np.float32)
    protocol.hear(Heard(more, [pause], SECOND, True, over=0.97), now=1.5)
    assert protocol.turns_committed == 1


def test_who_could_not_be_judged_is_ended_by_silence_or_by_words() -> None:
    assert pauses(listening(), None) == []
    assert pauses(listening(), None, 800) == []
    assert pauses(listening(), None, 900) == ["ended"]
    assert pauses(listening(), None, words=0.97) == ["ended"]
    assert pauses(listening(), None, 900, words=0.0) == []


def test_the_sound_is_wanted_only_where_it_decides() -> None:
    protocol, one = listening().protocol, np.zeros(SECOND, np.float32)

    def wanted(milliseconds: int) -> bool:
        pause = SpeechPaused(SECOND + 16 * milliseconds, milliseconds)
        return protocol.wants_sound(Heard(one[:0], [pause], SECOND, True))

    def thinks(ended: float) -> None:
        told = TextProvisional(SESSION, turn, "It is", SECOND + HEARD, ended)
        protocol.engine(told, now=1.1)

    assert not wanted(200), "nobody speaks"
    turn = started(protocol.hear(Heard(one, [SpeechStarted(0)], SECOND, True), now=1.0))
    assert not protocol.wants_sound(Heard(one, [], SECOND, True)), "no pause"
    assert not wanted(200), "the words are waited for"
    assert wanted(500), "they did not come"
    thinks(0.9)
    assert wanted(200)
    thinks(0.0)
    assert not wanted(200)
    assert wanted(1340), "what sounds open, too, waits longer"


def test_a_server_that_cannot_tell_says_so_and_ends_by_silence() -> None:
    script = listening(hears_ends=False)
    assert script.protocol.settings.vad().silence_duration_ms == 900
    assert script.protocol.settings.vad().pauses_ms == ()


def test_only_semantic_detection_says_what_ends_a_turn() -> None:
    script = listening()
    assert "turn_end" not in update(script, type="server_vad")
    tuned = replace(script.protocol.settings, turn_detection=None)
    assert tuned.turn_end is None


def test_who_only_transcribes_may_hear_of_probable_ends_too() -> None:
    """On request; and the turn goes on when somebody does."""
    for wanted, told in ((True, ["end", "resumed"]), (None, [])):
        script = listening()
        script.update({"lookhear": {"eager": wanted}})
        protocol, one = script.protocol, np.zeros(SECOND, np.float32)
        turn = started(protocol.hear(Heard(one, [SpeechStarted(0)], SECOND, True), now=1.0))
        protocol.engine(TextProvisional(SESSION, turn, "It is", SECOND + HEARD, 0.5), now=1.1)
        pause = SpeechPaused(SECOND + 3200, 200)
        quiet = np.zeros(3300, np.float32)
        outputs = protocol.hear(Heard(quiet, [pause], SECOND, True, over=0.5), now=1.2)
        outputs += protocol.hear(Heard(one, [], 2 * SECOND + 3300, True), now=2.0)
        frames = [output.event for output in outputs if isinstance(output, Send)]
        assert [f["status"] for f in frames if f["type"] == "lookhear.eager"] == told
