"""When a pause is the end of a turn."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookhear.gateway.realtime.patience import (
    BARE_TRANSCRIPTS,
    FIRST_PAUSE_MS,
    PATIENCE,
    Patience,
    Signs,
    Words,
    probability,
)
from lookhear.gateway.realtime.settings import SessionSettings, TurnDetection

patiences = st.sampled_from(list(PATIENCE.values()))
probabilities = st.none() | st.floats(0, 1)
wordings = st.none() | st.builds(Words, st.floats(0, 1), probabilities)


def ends_at(patience: Patience, over: float | None) -> int:
    """The silence that ends a turn, in milliseconds."""
    told = (ms for ms in patience.pauses_ms if patience.is_over(ms, over))
    return next(told, patience.cap_ms)


@given(patiences, st.floats(0, 1), st.floats(0, 1))
def test_what_is_more_probably_over_is_not_waited_for_longer(
    patience: Patience, one: float, other: float
) -> None:
    low, high = sorted((one, other))
    assert ends_at(patience, high) <= ends_at(patience, low)


@given(probabilities)
def test_the_eager_wait_no_longer(over: float | None) -> None:
    waits = [ends_at(PATIENCE[name], over) for name in ("high", "auto", "low")]
    assert waits == sorted(waits)
    assert ends_at(PATIENCE["medium"], over) == waits[1]


@given(patiences, probabilities)
def test_a_pause_that_is_the_end_stays_it(patience: Patience, over: float | None) -> None:
    told = [patience.is_over(ms, over) for ms in range(0, patience.cap_ms, 100)]
    assert told == sorted(told)


@given(patiences)
def test_without_a_judgement_silence_decides(patience: Patience) -> None:
    assert ends_at(patience, None) == patience.silence_ms


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
def test_a_better_sound_and_a_better_sentence_are_more_probably_over(
    sound: float, one: float, other: float
) -> None:
    low, high = sorted((one, other))

    def known(sound: float | None, words: Words | None) -> float:
        found = probability(sound, words)
        assert found is not None and 0.0 < found < 1.0
        return found

    for closing in (None, 0.0, sound, 1.0):
        assert known(sound, Words(low, closing)) <= known(sound, Words(high, closing))
        assert known(low, Words(sound, closing)) <= known(high, Words(sound, closing))
        least, most = (known(heard, Words(one, closing)) for heard in (0.0, 1.0))
        assert least <= known(None, Words(one, closing)) <= most
    assert known(sound, Words(one, low)) <= known(sound, Words(one, high))
    assert known(low, None) <= known(high, None)
    assert probability(None, None) is None


@pytest.mark.parametrize(
    ("sound", "words", "waits"),
    [
        (0.95, Words(0.9), FIRST_PAUSE_MS),  # "It is done."
        (0.95, Words(0.0), 1340),  # "followed by"
        (0.03, Words(0.9), 1340),  # "The code. | for today"
        (0.02, Words(0.0), 2000),
        (0.95, Words(0.9, 0.99), FIRST_PAUSE_MS),
        (0.95, Words(0.0, 0.95), 1340),  # no sign, but hardly anything else to come
        (0.5, Words(0.0, 0.6), 2000),  # "followed by"
        (0.03, Words(0.6, 0.97), 1340),
        (0.02, Words(0.0, 0.0), 2000),
        (0.97, None, FIRST_PAUSE_MS),
        (None, Words(0.8), 1340),
    ],
)
def test_neither_is_enough_without_the_other(
    sound: float | None, words: Words | None, waits: int
) -> None:
    assert ends_at(PATIENCE["auto"], probability(sound, words)) == waits


@given(patiences, st.integers(0, 4000), st.floats(0, 1), wordings)
def test_a_sound_that_is_not_wanted_changes_nothing(
    patience: Patience, pause_ms: int, sound: float, words: Words | None
) -> None:
    if not patience.depends_on_sound(pause_ms, words):
        told = patience.is_over(pause_ms, probability(sound, words))
        assert told == patience.is_over(pause_ms, probability(0.5, words))


@pytest.mark.parametrize("patience", PATIENCE.values())
def test_an_open_sentence_needs_no_sound(patience: Patience) -> None:
    assert not patience.depends_on_sound(FIRST_PAUSE_MS, Words(0.0))
    assert not patience.depends_on_sound(FIRST_PAUSE_MS, Words(0.0, 0.0))
    assert patience.depends_on_sound(FIRST_PAUSE_MS, Words(0.9))
    assert patience.depends_on_sound(FIRST_PAUSE_MS, Words(0.9, 0.98))
    assert patience.depends_on_sound(FIRST_PAUSE_MS, None)


@given(st.lists(st.sampled_from(["one two", "one. two", "", "¿Qué?", "好。"]), max_size=6))
def test_a_model_that_writes_no_signs_is_found_out(transcripts: Sequence[str]) -> None:
    signs = Signs()
    for transcript in transcripts:
        signs.read(transcript)
    said = [transcript for transcript in transcripts if transcript]
    last = said[-BARE_TRANSCRIPTS:]
    is_bare = len(last) == BARE_TRANSCRIPTS and all(text == "one two" for text in last)
    assert signs.are_written is not is_bare


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


def test_a_session_may_have_a_patience_of_its_own() -> None:
    own = Patience(sure=0.9, likely=0.9, likely_ms=0, cap_ms=3000, silence_ms=700, guess=0.6)
    detection = TurnDetection(type="semantic_vad", eagerness="high", own_patience=own)
    assert detection.patience is own and detection.vad().silence_duration_ms == 700
    assert detection.vad(hears_ends=True).silence_duration_ms == 3000
    assert own.may_be_over(0.6) and own.may_be_over(None) and not own.may_be_over(0.5)
