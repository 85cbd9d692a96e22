"""Partial updates: absent keeps, null clears, "" clears; the echo is the whole configuration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from lookhear.engine.messages import ModelCard
from lookhear.gateway.checks.checks import ProtocolError
from lookhear.gateway.realtime.openai import objects
from lookhear.gateway.realtime.openai.session_updates import updated
from lookhear.gateway.realtime.settings import SessionSettings
from tests.gateway.fake_engine import CARDS

START = SessionSettings(model="fake/whisper")


def changed(
    settings: SessionSettings, session: dict[str, Any], cards: Sequence[ModelCard] = CARDS
) -> SessionSettings:
    return updated(settings, cards, session=session)


def merged(settings: SessionSettings, **input: Any) -> SessionSettings:
    session = {"type": "transcription", "audio": {"input": input}}
    return changed(settings, session)


def transcription(settings: SessionSettings, **fields: Any) -> SessionSettings:
    return merged(settings, transcription=fields)


def test_nothing_given_changes_nothing() -> None:
    sessions: list[dict[str, Any]] = [
        {},
        {"audio": None},
        {"audio": {}},
        {"audio": {"input": None}},
    ]
    for session in sessions:
        assert changed(START, {"type": "transcription", **session}) == START
    assert merged(START) == START
    assert transcription(START) == START


def test_each_field_stays_until_it_is_named() -> None:
    settings = transcription(START, language="de", prompt="Hut")
    settings = merged(settings, turn_detection={"type": "server_vad", "threshold": 0.7})
    settings = merged(settings, turn_detection={"type": "server_vad", "silence_duration_ms": 200})
    settings = merged(settings, format={"type": "audio/pcma"})
    wire = objects.session(settings, "sess_1", None)["audio"]["input"]
    assert wire == {
        "format": {"type": "audio/pcma"},
        "transcription": {"model": "fake/whisper", "language": "de", "prompt": "Hut"},
        "turn_detection": {
            "type": "server_vad",
            "threshold": 0.7,
            "prefix_padding_ms": 300,
            "silence_duration_ms": 200,
        },
    }


def test_null_and_empty_clear() -> None:
    full = transcription(START, language="de", prompt="Hut", model="fake/whisper")
    assert transcription(full, language=None).language is None
    assert transcription(full, language="").language is None
    assert transcription(full, prompt="").prompt == ""
    assert transcription(full, prompt=None).prompt == ""
    assert merged(full, transcription=None) == START
    assert merged(full, turn_detection=None).turn_detection is None
    changed = merged(START, turn_detection={"type": "server_vad", "threshold": 0.9})
    assert merged(changed, turn_detection={"type": "server_vad", "threshold": None}) == START
    pcma = merged(START, format={"type": "audio/pcma"})
    assert merged(pcma, format=None) == START


def test_another_kind_of_turn_detection_begins_anew() -> None:
    tuned = merged(START, turn_detection={"type": "server_vad", "threshold": 0.9})
    semantic = merged(tuned, turn_detection={"type": "semantic_vad", "eagerness": "high"})
    assert semantic.vad().silence_duration_ms == 500
    assert objects.session(semantic, "s", None)["audio"]["input"]["turn_detection"] == {
        "type": "semantic_vad",
        "eagerness": "high",
    }
    slow = merged(semantic, turn_detection={"type": "semantic_vad", "eagerness": "low"})
    assert slow.vad().silence_duration_ms > semantic.vad().silence_duration_ms
    assert merged(semantic, turn_detection={"type": "server_vad"}) == START


@pytest.mark.parametrize(("given", "code"), [("EN", "en"), ("en-US", "en"), ("de_DE", "de")])
def test_language_tags_are_reduced(given: str, code: str) -> None:
    assert transcription(START, language=given).language == code


def test_a_language_must_suit_the_model_it_ends_up_with() -> None:
    german = transcription(START, language="de")
    with pytest.raises(ProtocolError, match='expected one of en; got "de"'):
        transcription(german, model="fake-english")
    with pytest.raises(ProtocolError, match="xx"):
        transcription(START, language="xx")
    # A model that lists no languages does not mind what its own is called.
    unnamed = [CARDS[0], replace(CARDS[1], languages=[])]

    def heard(settings: SessionSettings, **fields: Any) -> SessionSettings:
        audio = {"input": {"transcription": fields}}
        return changed(settings, {"type": "transcription", "audio": audio}, unnamed)

    odd = heard(START, model="fake-english", language="xx")
    assert odd.language == "xx"
    with pytest.raises(ProtocolError, match="xx"):
        heard(odd, model="fake/whisper")


def test_a_delay_is_one_that_clients_know_and_goes_with_null() -> None:
    waiting = transcription(START, delay="high")
    assert waiting.transcription().delay == "high"
    shown = objects.session(waiting, "s", None)["audio"]["input"]["transcription"]
    assert shown["delay"] == "high"
    assert transcription(waiting, language="en").delay == "high"
    assert transcription(waiting, delay=None) == START
    assert "delay" not in objects.session(START, "s", None)["audio"]["input"]["transcription"]
    for wrong in ("soon", 3, True):
        with pytest.raises(ProtocolError, match=r"transcription\.delay: expected .*minimal"):
            transcription(START, delay=wrong)


def test_who_is_near_the_microphone() -> None:
    near = merged(START, noise_reduction={"type": "near_field"})
    assert near.vad() == replace(START.vad(), near_field=True)
    assert objects.session(near, "s", None)["audio"]["input"]["noise_reduction"] == {
        "type": "near_field"
    }
    assert near.ignored == () and merged(near, turn_detection=None).vad().near_field
    semantic = merged(near, turn_detection={"type": "semantic_vad"})
    assert semantic.vad().near_field
    far = merged(near, noise_reduction={"type": "far_field"})
    assert far.vad() == START.vad() and far.noise_reduction == "far_field"
    assert merged(near, noise_reduction=None) == START
    assert "noise_reduction" not in objects.session(START, "s", None)["audio"]["input"]
    for wrong in ("near", None):
        with pytest.raises(ProtocolError, match=r"noise_reduction\.type: expected .*near_field"):
            merged(START, noise_reduction={"type": wrong})


def test_candidates_are_languages_of_the_model() -> None:
    two = transcription(START, languages=["de-DE", "en"])
    assert two.transcription().languages == ("de", "en")
    shown = objects.session(two, "s", None)["audio"]["input"]["transcription"]
    assert shown["languages"] == ["de", "en"]
    assert transcription(two, languages=None) == transcription(two, languages=[]) == START
    with pytest.raises(ProtocolError, match=r"languages: .*xx"):
        transcription(START, languages=["de", "xx"])


def test_logprobs_and_extensions() -> None:
    include = ["item.input_audio_transcription.logprobs"]
    on = changed(START, {"type": "transcription", "include": include})
    assert objects.session(on, "s", None)["include"] == include
    assert changed(on, {"type": "transcription", "include": []}) == START
    assert changed(on, {"type": "transcription", "include": None}) == START
    asked = changed(START, {"type": "transcription", "lookhear": {"words": True}})
    assert objects.session(asked, "s", None)["lookhear"] == {"provisional": False, "words": True}
    assert objects.session(asked, "s", None, ["a"])["lookhear"]["toys"] == ["a"]
    assert "lookhear" not in objects.session(START, "s", None, ["a"])
    assert changed(asked, {"type": "transcription", "lookhear": None}) == START


def test_other_sample_rates_are_taken() -> None:
    sixteen = merged(START, format={"type": "audio/pcm", "rate": 16_000})
    assert objects.session(sixteen, "s", None)["audio"]["input"]["format"]["rate"] == 16_000


@pytest.mark.parametrize(
    ("card", "missing"),
    [
        ({"has_word_times": False}, "has no word times;"),
        ({"has_word_times": False, "takes_aligner": True}, "no word times .*--aligner"),
        ({"timed_languages": ["de", "fr"]}, "has word times in de, fr;"),
    ],
)
def test_what_is_missing_for_word_times_is_told(card: dict[str, Any], missing: str) -> None:
    cards = [replace(CARDS[0], **card), CARDS[1]]
    heard = {"input": {"transcription": {"model": CARDS[0].id, "language": "en"}}}
    update = {"type": "transcription", "lookhear": {"words": True}, "audio": heard}
    with pytest.raises(ProtocolError, match=missing) as caught:
        changed(START, update, cards)
    assert caught.value.code == "invalid_words"


def test_a_language_that_is_not_known_yet_may_have_word_times() -> None:
    cards = [replace(CARDS[0], timed_languages=["de"]), CARDS[1]]
    update = {"type": "transcription", "lookhear": {"words": True}}
    assert changed(START, update, cards).words
    assert cards[0].untimed("de") is None


def test_word_times_of_a_model_that_has_none_are_refused_at_once() -> None:
    cards = [replace(CARDS[0], has_word_times=False), CARDS[1]]
    update = {"type": "transcription", "lookhear": {"words": True}}
    with pytest.raises(ProtocolError, match="expected false, fake/whisper") as caught:
        changed(START, update, cards)
    assert (caught.value.code, caught.value.param) == ("invalid_words", "session.lookhear.words")
    other = {"audio": {"input": {"transcription": {"model": CARDS[1].id}}}}
    words = changed(START, {**update, **other}, cards)
    with pytest.raises(ProtocolError, match=r"session\.lookhear\.words"):
        back = {"input": {"transcription": {"model": CARDS[0].id}}}
        changed(words, {"type": "transcription", "audio": back}, cards)
