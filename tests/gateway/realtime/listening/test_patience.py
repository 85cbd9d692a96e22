"""When a pause is the end of a turn."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookhear.gateway.realtime.patience import FIRST_PAUSE_MS, PATIENCE, Patience, is_open
from lookhear.gateway.realtime.settings import SessionSettings, TurnDetection

patiences = st.sampled_from(list(PATIENCE.values()))
probabilities = st.none() | st.floats(0, 1)
texts = st.sampled_from(["", "Well", "And so,", "It is done.", "to the…", "¿Qué?"])


def ends_at(patience: Patience, over: float | None, text: str) -> int:
    """The silence that ends a turn, in milliseconds."""
    told = (ms for ms in patience.pauses_ms if patience.is_over(ms, over, text))
    return next(told, patience.cap_ms)


@given(patiences, st.floats(0, 1), st.floats(0, 1), texts)
def test_who_sounds_more_finished_is_not_waited_for_longer(
    patience: Patience, one: float, other: float, text: str
) -> None:
    low, high = sorted((one, other))
    assert ends_at(patience, high, text) <= ends_at(patience, low, text)


@given(probabilities, texts)
def test_the_eager_wait_no_longer(over: float | None, text: str) -> None:
    waits = [ends_at(PATIENCE[name], over, text) for name in ("high", "auto", "low")]
    assert waits == sorted(waits)
    assert ends_at(PATIENCE["medium"], over, text) == waits[1]


@given(patiences, probabilities, texts)
def test_a_pause_that_is_the_end_stays_it(
    patience: Patience, over: float | None, text: str
) -> None:
    told = [patience.is_over(ms, over, text) for ms in range(0, patience.cap_ms, 100)]
    assert told == sorted(told)


@given(patiences, texts)
def test_without_a_judgement_silence_decides(patience: Patience, text: str) -> None:
    assert ends_at(patience, None, text) == patience.silence_ms


@given(patiences)
def test_an_open_phrase_is_waited_for(patience: Patience) -> None:
    assert ends_at(patience, 1.0, "It is done.") == FIRST_PAUSE_MS
    assert ends_at(patience, 1.0, "It is done, ") == patience.likely_ms


def test_words_without_an_end_have_to_sound_surer() -> None:
    usual = PATIENCE["auto"]
    assert usual.is_over(FIRST_PAUSE_MS, 0.9, "Followed by the pound key.")
    assert usual.is_over(FIRST_PAUSE_MS, 0.9, "")
    assert not usual.is_over(FIRST_PAUSE_MS, 0.9, "Followed by the")
    assert usual.is_over(FIRST_PAUSE_MS, 0.96, "Followed by the")


@pytest.mark.parametrize("text", ["so, ", "namely:", "I thought…", "well...", "然后，"])
def test_open(text: str) -> None:
    assert is_open(text) and not is_open(text + " end.")


def test_what_the_detector_is_told() -> None:
    semantic = TurnDetection(type="semantic_vad", eagerness="high")
    settings = SessionSettings("m", turn_detection=semantic)
    assert (settings.turn_end, settings.vad().pauses_ms) == ("silence", ())
    assert settings.vad().silence_duration_ms == PATIENCE["high"].silence_ms
    assert not settings.transcription().provisional
    heard = SessionSettings("m", turn_detection=semantic, hears_ends=True)
    assert heard.turn_end == "sound" and heard.vad().pauses_ms[0] == FIRST_PAUSE_MS
    assert heard.vad().silence_duration_ms == PATIENCE["high"].cap_ms
    assert heard.transcription().provisional
    server = SessionSettings("m", hears_ends=True)
    assert (server.turn_end, server.vad().pauses_ms) == ("silence", ())
    assert SessionSettings("m", turn_detection=None, hears_ends=True).turn_end is None
