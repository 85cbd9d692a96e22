"""Deepgram's turn-based wire: what is told of turns, when they end, what may be asked for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from starlette.datastructures import QueryParams

from lookhear.gateway.realtime.deepgram.flux import FluxDialect
from tests.gateway.realtime.deepgram.flux import FORMAT, SERVED, Flux, check_order, ended, kinds
from tests.gateway.scripted import SESSION

FORCE, CLOSE = {"type": "ForceEndTurn"}, {"type": "CloseStream"}
MULTI = "model=flux-general-multi&encoding=linear16&sample_rate=16000"
SURE, DOUBT = 0.97, 0.5


def test_who_connects_is_told_so_first() -> None:
    [connected] = Flux().frames
    assert connected == {"type": "Connected", "request_id": SESSION, "sequence_id": 0}


def test_a_turn_from_its_first_word_to_its_end() -> None:
    flux = Flux()
    item = flux.begins()
    assert flux.last == []
    [start] = flux.thinks(item, "Hello")
    assert (start["event"], start["turn_index"], start["transcript"]) == ("StartOfTurn", 0, "Hello")
    assert (start["audio_window_start"], start["audio_window_end"]) == (0.0, 1.0)
    assert start["words"] == [{"word": "Hello", "confidence": 0.0}]
    flux.speaks_on()
    assert flux.says(item, "Hello,", 0.1, 0.5)[0]["words"] == [
        {"word": "Hello,", "confidence": 0.75, "start": 0.1, "end": 0.5}
    ]
    [update] = flux.thinks(item, " world.", 0.95)
    assert (update["event"], update["transcript"]) == ("Update", "Hello, world.")
    assert update["end_of_turn_confidence"] == 0.0
    assert [word["word"] for word in update["words"]] == ["Hello,", "world."]
    flux.thinks(item, " world.", 0.95)
    assert flux.thinks(item, " world.", 0.95) == [] == flux.pauses(200, SURE)
    assert flux.ended == [item], "all is said"
    flux.says(item, " world.", 0.6, 0.9)
    [end] = flux.complete(item)
    assert (end["event"], end["transcript"], end["trigger"]) == (
        "EndOfTurn",
        "Hello, world.",
        "model",
    )
    assert end["end_of_turn_confidence"] > 0.7
    assert (end["audio_window_start"], end["audio_window_end"]) == (0.0, 1.7)
    assert "languages" not in end
    check_order(flux.frames)


def test_words_are_those_of_the_text_while_it_is_settled() -> None:
    flux = Flux()
    item = flux.begins()
    flux.thinks(item, "on")
    [settled] = flux.says(item, "on", 0.1, 0.5)  # the same text, but now for sure
    assert (settled["event"], settled["transcript"]) == ("Update", "on")
    assert settled["words"] == [{"word": "on", "confidence": 0.75, "start": 0.1, "end": 0.5}]
    [signed] = flux.thinks(item, ".")
    assert [(w["word"], w["confidence"]) for w in signed["words"]] == [("on.", 0.75)]
    [more] = flux.thinks(item, "ly one")
    assert [(w["word"], w["confidence"]) for w in more["words"]] == [("only", 0.0), ("one", 0.0)]
    assert more["transcript"] == "only one"


def test_what_nobody_asked_for_is_not_told() -> None:
    flux = Flux()
    flux.thinks(flux.begins(), "Well", 0.5)
    assert flux.pauses(200, DOUBT) == []
    assert kinds(flux.frames) == ["Connected", "StartOfTurn"]


def test_a_turn_that_is_probably_over_is_told_and_that_it_goes_on() -> None:
    flux = Flux("eager_eot_threshold=0.4")
    item = flux.begins()
    flux.thinks(item, "I want", 0.5)
    [eager] = flux.pauses(200, DOUBT)
    assert (eager["event"], eager["transcript"]) == ("EagerEndOfTurn", "I want")
    assert 0.4 <= eager["end_of_turn_confidence"] < 0.75
    [resumed] = flux.speaks_on()
    assert (resumed["event"], resumed["end_of_turn_confidence"]) == ("TurnResumed", 0.0)
    flux.thinks(item, "I want tea.", 0.95)
    flux.pauses(200, SURE)
    flux.says(item, "I want tea.", 0.0, 0.9)
    flux.complete(item)
    assert kinds(flux.frames)[-2:] == ["Update", "EndOfTurn"]
    check_order(flux.frames)


def test_what_is_less_probable_than_asked_for_is_not_told() -> None:
    flux = Flux("eager_eot_threshold=0.9")
    item = flux.begins()
    flux.thinks(item, "I want", 0.5)
    assert flux.pauses(200, DOUBT) == []


def test_a_text_that_changes_behind_the_eager_end_is_told_anew() -> None:
    flux = Flux("eager_eot_threshold=0.3")
    item = flux.begins()
    flux.thinks(item, "I want", 0.5)
    flux.pauses(200, DOUBT)
    assert kinds(flux.thinks(item, "I want it", 0.5)) == ["TurnResumed", "EagerEndOfTurn"]
    flux.stops()
    flux.says(item, "I want that", 0.0, 0.9)
    assert kinds(flux.complete(item)) == ["EndOfTurn"] and kinds(flux.frames)[-3:-1] == [
        "TurnResumed",
        "EagerEndOfTurn",
    ]
    check_order(flux.frames)


def test_a_text_that_is_another_in_the_end_resumes_the_turn_first() -> None:
    flux = Flux("eager_eot_threshold=0.3", models=[replace(SERVED[0], has_word_times=False)])
    item = flux.begins()
    flux.thinks(item, "I want", 0.5)
    flux.pauses(200, DOUBT)
    flux.stops()
    assert kinds(flux.complete(item)) == ["TurnResumed", "EndOfTurn"]
    check_order(flux.frames)


@pytest.mark.parametrize(
    "query, pause, over, is_over",
    [
        ("", 200, 0.9, True),
        ("eot_threshold=0.98", 200, 0.9, False),
        ("eot_threshold=0.98", 1400, 0.9, False),
        ("eot_threshold=0.5", 200, 0.6, True),
        ("eot_threshold=1.0", 4000, 0.97, False),
        ("", 900, None, False),
        ("", 1400, None, True),
        ("eot_threshold=1.0", 900, None, False),
    ],
)
def test_the_threshold_says_when_a_turn_is_over(
    query: str, pause: int, over: float | None, is_over: bool
) -> None:
    flux = Flux(query)
    item = flux.begins()
    flux.thinks(item, "It is so.", 0.8)
    flux.pauses(pause, over)
    assert (flux.ended == [item]) == is_over


def test_the_timeout_ends_any_turn() -> None:
    flux = Flux("eot_threshold=1.0&eot_timeout_ms=700")
    vad = flux.protocol.settings.vad()
    assert vad.silence_duration_ms == 700 and max(vad.pauses_ms) < 700
    item = flux.begins()
    flux.thinks(item, "and", 0.0)
    flux.stops(700)
    flux.says(item, "and", 0.0, 0.5)
    [end] = flux.complete(item)
    assert end["trigger"] == "timeout" and end["end_of_turn_confidence"] < 0.2


def test_without_a_judge_silence_ends_turns() -> None:
    flux = Flux("eager_eot_threshold=0.5", hears_ends=False)
    vad = flux.protocol.settings.vad()
    assert (vad.silence_duration_ms, vad.pauses_ms) == (900, ())
    own = Flux("eot_threshold=1&eot_timeout_ms=30000", hears_ends=False)
    assert own.protocol.settings.vad().silence_duration_ms == 30_000
    item = flux.begins()
    flux.thinks(item, "yes")
    [eager] = flux.talk(0.3, voiced_until=flux.voiced_at)
    assert (eager["event"], eager["end_of_turn_confidence"]) == ("EagerEndOfTurn", 0.0)
    flux.stops(900)
    flux.says(item, "yes", 0.0, 0.5)
    [end] = flux.complete(item)
    assert end["trigger"] == "timeout"
    check_order(flux.frames)


def test_a_turn_may_be_ended_by_the_client() -> None:
    flux = Flux()
    item = flux.begins()
    flux.thinks(item, "one two")
    assert flux.tell(FORCE) == [] and flux.ended == [item]
    flux.says(item, "one two", 0.0, 0.9)
    [end] = flux.complete(item)
    assert end["trigger"] == "manual"


def test_no_turn_is_no_turn_to_end() -> None:
    flux = Flux()
    assert flux.tell(FORCE) == []
    flux.talk(1.0, voiced_until=0, speaking=False)
    flux.tell(FORCE)
    [item] = flux.ended  # a word may just have begun
    assert flux.complete(item) == []
    assert kinds(flux.frames) == ["Connected"]


def test_a_noise_is_no_turn() -> None:
    flux = Flux()
    noise = flux.begins()
    flux.stops()
    assert flux.complete(noise) == []
    second = flux.begins()
    flux.says(second, "hi", 0.0, 0.3)
    flux.stops()
    [end] = flux.complete(second)
    assert end["turn_index"] == 0 and kinds(flux.frames) == [
        "Connected",
        "StartOfTurn",
        "EndOfTurn",
    ]


def test_words_that_were_taken_back_leave_an_empty_turn() -> None:
    flux = Flux()
    item = flux.begins()
    flux.thinks(item, "uh")
    [update] = flux.thinks(item, "")
    assert (update["event"], update["transcript"], update["words"]) == ("Update", "", [])
    flux.stops()
    assert kinds(flux.complete(item)) == ["EndOfTurn"]


@pytest.mark.parametrize("end", [CLOSE, b""])
def test_the_end_of_the_stream_ends_the_turn(end: Any) -> None:
    flux = Flux()
    item = flux.begins()
    assert flux.tell(end) == []
    flux.says(item, "bye", 0.0, 0.5)
    assert kinds(flux.complete(item)) == ["EndOfTurn"]
    assert [close.code for close in flux.closes] == [1000]


def test_a_failed_turn_is_a_warning_and_loses_nothing() -> None:
    flux = Flux()
    item = flux.begins()
    flux.says(item, "so far", 0.0, 0.5)
    flux.stops()
    warning, end = flux.fail(item)
    assert (warning["code"], warning["description"]) == ("SERVER_ERROR", "asked to fail")
    assert (end["event"], end["transcript"]) == ("EndOfTurn", "so far")
    assert not flux.closes


def test_a_turn_behind_one_that_was_forced_to_end_begins_there() -> None:
    flux = Flux()
    first = flux.begins(16_009 / 16_000)  # no whole milliseconds
    flux.tell(FORCE)
    second = flux.begins()
    flux.says(first, "hi", 0.0, 0.5)
    [end] = flux.complete(first)
    [start] = flux.says(second, "you", 0.0, 0.5)
    assert (end["audio_window_end"], start["audio_window_start"]) == (1.001, 1.001)


def test_the_end_of_the_server_is_an_error() -> None:
    flux = Flux()
    flux._take(flux.protocol.depart(now=flux.now))
    assert flux.last[-1]["type"] == "Error" and flux.last[-1]["code"] == "GOING_AWAY"


def test_models_without_word_times_have_words_without_them() -> None:
    flux = Flux(models=[replace(SERVED[0], has_word_times=False)])
    item = flux.begins()
    flux.says(item, "Hello, world", 0.0, 0.9)
    flux.stops()
    [end] = flux.complete(item)
    assert [set(word) for word in end["words"]] == [{"word", "confidence"}] * 2


def test_the_multilingual_one_tells_languages_and_takes_hints() -> None:
    flux = Flux(f"{MULTI}&language_hint=de-DE&language_hint=en")
    item = flux.begins()
    settings = flux.started[item].settings
    assert (settings.language, settings.languages) == (None, ("de", "en"))
    [start] = flux.says(item, "hallo", 0.0, 0.5)
    assert start["languages_hinted"] == ["de", "en"]
    flux.stops()
    [end] = flux.complete(item, "de")
    assert end["languages"] == ["de"]
    [told] = flux.tell({"type": "Configure", "language_hints": ["fr"]})
    assert told["language_hints"] == ["fr"]
    assert flux.started[flux.begins()].settings.languages == ("fr",)


def test_settings_may_change_in_mid_stream() -> None:
    flux = Flux("keyterm=Ada&keyterm=Babbage")
    item = flux.begins()
    assert flux.started[item].settings.keywords == ("Ada", "Babbage")
    thresholds = {"eot_threshold": 1.0, "eot_timeout_ms": 30_000}
    [told] = flux.tell({"type": "Configure", "thresholds": thresholds})
    assert told["thresholds"] == thresholds and told["keyterms"] == ["Ada", "Babbage"]
    flux.thinks(item, "It is so.", 0.8)
    flux.pauses(1400, SURE)
    assert not flux.ended
    [told] = flux.tell({"type": "Configure", "thresholds": {"eot_threshold": "0.6"}})
    assert told["thresholds"] == {"eot_threshold": 0.6, "eot_timeout_ms": 30_000}
    flux.pauses(1500, SURE)
    assert flux.ended == [item]
    [told] = flux.tell({"type": "Configure", "keyterms": "Turing", "numerals": True})
    assert told["keyterms"] == ["Turing"] and "language_hints" not in told
    assert flux.started[flux.begins()].settings.keywords == ("Turing",)


@pytest.mark.parametrize(
    "fields, code, named",
    [
        ({"thresholds": {"eot_threshold": 2}}, "CONFIGURE_INVALID_VALUE", "thresholds.eot"),
        ({"thresholds": {"eot_timeout_ms": "x"}}, "CONFIGURE_INVALID_VALUE", "thresholds.eot_t"),
        ({"thresholds": [1]}, "CONFIGURE_INVALID_VALUE", "thresholds: "),
        ({"thresholds": {"eager_eot_threshold": 0.9}}, "CONFIGURE_INVALID_VALUE", "thresholds.eag"),
        ({"keyterms": [1]}, "CONFIGURE_INVALID_VALUE", "keyterms: "),
        ({"keyterms": list("abc" * 40)}, "", ""),
        ({"keyterms": [str(i) for i in range(101)]}, "CONFIGURE_KEYTERM_LIMIT_EXCEEDED", "keyterm"),
        ({"language_hints": ["de"]}, "CONFIGURE_INVALID_VALUE", "language_hints: "),
    ],
)
def test_a_change_that_cannot_be_had_changes_nothing(
    fields: dict[str, Any], code: str, named: str
) -> None:
    flux = Flux("eot_threshold=0.7&keyterm=Ada")
    before = flux.protocol.settings
    [told] = flux.tell({"type": "Configure", **fields})
    if not code:
        assert told["type"] == "ConfigureSuccess"
        return
    assert (told["type"], told["code"]) == ("ConfigureFailure", code)
    assert told["description"].startswith(named)
    assert flux.protocol.settings == before
    [told] = flux.tell({"type": "Configure"})
    assert told["thresholds"] == {"eot_threshold": 0.7, "eot_timeout_ms": 5000}


@pytest.mark.parametrize(
    "message, named",
    [
        ("no json", "message"),
        ("[1]", "message"),
        ('{"type": "Finalize"}', "type"),
        ("{}", "type"),
    ],
)
def test_what_is_no_message_is_a_warning(message: str, named: str) -> None:
    flux = Flux()
    [warning] = flux.tell(message)
    assert (warning["type"], warning["code"]) == ("Warning", "UNPARSABLE_CLIENT_MESSAGE")
    assert warning["description"].startswith(f"{named}: ")
    assert flux.tell({"type": "KeepAlive"}) == [] == flux.closes


@pytest.mark.parametrize(
    "query, named",
    [
        ("eot_threshold=0.4", "eot_threshold"),
        ("eot_threshold=nan", "eot_threshold"),
        ("eager_eot_threshold=0.95", "eager_eot_threshold"),
        ("eager_eot_threshold=0.8&eot_threshold=0.7", "eager_eot_threshold"),
        ("eot_timeout_ms=100", "eot_timeout_ms"),
        ("language_hint=de", "language_hint"),
        ("redact=numbers", "redact"),
        ("encoding=speex", "encoding"),
        ("sample_rate=", "sample_rate"),
    ],
)
def test_what_cannot_be_had_is_refused_by_name(query: str, named: str) -> None:
    dialect = FluxDialect(QueryParams(f"{FORMAT}&{query}"), lambda prefix: prefix)
    problem = dialect.first_settings(SERVED)[1]
    assert problem is not None and problem.message.startswith(f"{named}: ")


def test_what_touches_up_text_is_taken() -> None:
    told = f"{FORMAT}&numerals=true&profanity_filter=true&mip_opt_out=true&tag=one"
    dialect = FluxDialect(QueryParams(told), lambda prefix: prefix)
    assert dialect.first_settings(SERVED)[1] is None


def test_the_usual_threshold_is_told() -> None:
    [told] = Flux().tell({"type": "Configure"})
    assert told["thresholds"] == {"eot_threshold": 0.85, "eot_timeout_ms": 5000}
    [told] = Flux("eager_eot_threshold=0.9").tell({"type": "Configure"})
    assert told["thresholds"]["eager_eot_threshold"] == 0.9
    assert not ended([told])
