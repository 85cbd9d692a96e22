"""Turns of one session are told one after another, however their audio came."""

from __future__ import annotations

from itertools import groupby

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lookhear.engine.core.core import EngineCore
from lookhear.engine.messages import (
    SAMPLE_RATE,
    AppendAudio,
    CancelTurn,
    EndTurn,
    StartTurn,
    TextCommitted,
    TranscriptionSettings,
    TurnCompleted,
    TurnFailed,
)
from tests.engine.core.test_core import make_core
from tests.engine.playing import drain, noise
from tools.random_checkpoints.whisper import build_random_whisper


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> EngineCore:
    folder = tmp_path_factory.mktemp("whisper")
    made = build_random_whisper(folder, layers=1, width=32, heads=2, seed=3, context=96)
    (made / "lookhear.json").write_text('{"short_windows": true}')
    return make_core(made, max_live_turns=2)


def speak(core: EngineCore, session: str, turn: str, seconds: float) -> None:
    core.submit(StartTurn(session, turn, TranscriptionSettings(model="m", language="en")))
    samples = noise(len(turn), seconds)
    core.submit(AppendAudio(session, turn, samples, len(samples)))


@settings(deadline=None, max_examples=25)
@given(
    seconds=st.lists(st.sampled_from([0.0, 0.4, 1.0, 2.5]), min_size=1, max_size=12),
    steps=st.lists(st.integers(0, 3), min_size=12, max_size=12),
    cancelled=st.sets(st.integers(0, 11), max_size=3),
)
def test_a_burst_of_turns_is_told_in_order(
    core: EngineCore, seconds: list[float], steps: list[int], cancelled: set[int]
) -> None:
    events = []
    # All but the last are open for a while beside the one before.
    for number, length in enumerate(seconds):
        speak(core, "s", f"t{number}", length)
        if number:
            core.submit(EndTurn("s", f"t{number - 1}"))
        if number in cancelled:
            core.submit(CancelTurn("s", f"t{number}"))
        for _ in range(steps[number]):
            events += core.step()
    core.submit(EndTurn("s", f"t{len(seconds) - 1}"))
    events += drain(core)
    told = [e for e in events if isinstance(e, TextCommitted | TurnCompleted)]
    order = [turn for turn, _ in groupby(e.turn for e in told)]
    kept = [f"t{number}" for number in range(len(seconds)) if number not in cancelled]
    done = [e.turn for e in told if isinstance(e, TurnCompleted)]
    assert done == kept
    assert order == sorted(set(order), key=order.index), "a turn is told in one go"
    assert [turn for turn in order if turn in kept] == kept
    assert not any(isinstance(e, TurnFailed) for e in events)


def test_many_turns_of_one_speaker_are_one_speaker(core: EngineCore) -> None:
    for number in range(5):
        speak(core, "one", f"t{number}", 0.5)
    speak(core, "two", "t", 0.5)
    speak(core, "three", "t", 0.5)
    failed = [e for e in drain(core) if isinstance(e, TurnFailed)]
    assert [e.session for e in failed] == ["three"]
    assert "2 speakers" in failed[0].message
    for number in range(5):
        core.submit(EndTurn("one", f"t{number}"))
    core.submit(EndTurn("two", "t"))
    done = [e.turn for e in drain(core) if isinstance(e, TurnCompleted) and e.session == "one"]
    assert done == [f"t{number}" for number in range(5)]


def test_a_turn_that_fails_does_not_hold_those_behind_it(core: EngineCore) -> None:
    speak(core, "s", "long", 0.5)
    speak(core, "s", "next", 0.5)
    too_much = np.zeros(3601 * SAMPLE_RATE, np.float32)
    core.submit(AppendAudio("s", "long", too_much, len(too_much)))
    core.submit(EndTurn("s", "next"))
    ends = [e for e in drain(core) if isinstance(e, TurnFailed | TurnCompleted)]
    assert [(type(e), e.turn) for e in ends] == [(TurnFailed, "long"), (TurnCompleted, "next")]
