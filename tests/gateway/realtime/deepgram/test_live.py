"""Deepgram's live wire: what its clients are told of speech, its pauses and their own messages."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from lookhear.engine.messages import TextCommitted, Word
from tests.gateway.deepgram.frames import text_of
from tests.gateway.realtime.deepgram.listening import Listen
from tests.gateway.scripted import SESSION

FINALIZE, CLOSE, KEEP_ALIVE = ({"type": t} for t in ("Finalize", "CloseStream", "KeepAlive"))


def flags(frame: dict[str, Any]) -> tuple[bool, bool, bool]:
    return frame["is_final"], frame["speech_final"], frame["from_finalize"]


def said(listen: Listen, item: str, text: str, start: float, end: float) -> list[dict[str, Any]]:
    """The engine commits one word with its time."""
    listen.text[item] += text
    return listen.engine(TextCommitted(SESSION, item, text, None, [Word(text, start, end, 0.8)]))


def test_interim_results_replace_each_other_and_the_end_of_speech_is_final() -> None:
    listen = Listen("interim_results=true")
    assert listen.frames == []
    item = listen.begins()
    assert listen.frames == []
    [guessed] = listen.guess(item, "helo")
    assert (text_of(guessed), flags(guessed)) == ("helo", (False, False, False))
    assert guessed["start"] == 0.0 and guessed["duration"] == 1.0
    [interim] = said(listen, item, "Hello,", 0.1, 0.5)
    assert text_of(interim) == "Hello,"
    assert interim["channel"]["alternatives"][0]["words"] == [
        {
            "word": "hello",
            "start": 0.1,
            "end": 0.5,
            "confidence": 0.8,
            "punctuated_word": "Hello,",
        }
    ]
    [interim] = listen.guess(item, " word")
    assert text_of(interim) == "Hello, word"
    assert listen.guess(item, " word") == []
    assert listen.stops() == []
    said(listen, item, " world", 0.6, 0.9)
    [final] = listen.complete(item)
    assert (text_of(final), flags(final)) == ("Hello, world", (True, True, False))
    assert (final["start"], final["duration"]) == (0.0, 1.5)
    assert final["channel"]["alternatives"][0]["confidence"] == 0.8
    assert final["metadata"]["model_info"]["name"] == "fake/whisper"
    assert final["metadata"]["request_id"] == SESSION


def test_without_interim_results_only_final_ones_come() -> None:
    listen = Listen()
    item = listen.begins()
    assert listen.guess(item, "hi") == [] == said(listen, item, "hi", 0.0, 0.2)
    listen.stops()
    assert text_of(listen.complete(item)[0]) == "hi"


def test_a_long_turn_is_final_in_pieces_and_the_last_has_words() -> None:
    listen = Listen("interim_results=true")
    item = listen.begins(10.0)
    told = [said(listen, item, f" w{i}", i, i + 0.9) for i in range(9)]
    listen.stops()
    listen.complete(item)
    finals = [frame for frame in listen.results if frame["is_final"]]
    assert [text_of(frame) for frame in finals] == ["w0 w1 w2 w3", "w4 w5 w6", "w7 w8"]
    assert [frame["speech_final"] for frame in finals] == [False, False, True]
    for one, next in zip(finals, finals[1:], strict=False):
        assert next["start"] == pytest.approx(one["start"] + one["duration"])
    assert [text_of(frame) for frame in told[4]] == ["w0 w1 w2 w3", "w4"]


def test_a_mark_belongs_to_the_word_before_it() -> None:
    listen = Listen()
    item = listen.begins()
    said(listen, item, "really", 0.1, 0.5)
    listen.text[item] += "?!"
    listen.engine(TextCommitted(SESSION, item, "?!", None, None))
    listen.stops()
    [final] = listen.complete(item)
    [word] = final["channel"]["alternatives"][0]["words"]
    assert (word["word"], word["punctuated_word"]) == ("really", "really?!")


def test_a_piece_does_not_end_inside_a_word() -> None:
    listen = Listen()
    item = listen.begins(10.0)
    for start, text in enumerate(["one", " tw", "o", " three"]):
        said(listen, item, text, 4.0 * start, 4.0 * start + 1)
    listen.stops()
    listen.complete(item)
    assert listen.finals == ["one", "two", "three"] or listen.finals == ["one two", "three"]
    assert " ".join(listen.finals) == "one two three"


@pytest.mark.parametrize("endpointing, ends", [("300", True), ("true", True), ("false", False)])
def test_endpointing_says_whether_pauses_are_told(endpointing: str, ends: bool) -> None:
    listen = Listen(f"endpointing={endpointing}")
    item = listen.begins()
    listen.say(item, "hi")
    listen.stops()
    assert flags(listen.complete(item)[0]) == (True, ends, False)


def test_finalize_ends_a_turn_and_says_so() -> None:
    listen = Listen()
    item = listen.begins()
    assert listen.tell(FINALIZE) == []
    assert listen.ended == [item]
    listen.say(item, "hi")
    [final] = listen.complete(item)
    assert (text_of(final), flags(final)) == ("hi", (True, False, True))


def test_what_is_said_behind_a_finalize_begins_where_that_ended() -> None:
    listen = Listen("interim_results=true")
    first = listen.begins(16_009 / 16_000)  # no whole milliseconds
    listen.tell(FINALIZE)
    second = listen.begins()
    listen.say(first, "hi")
    [final] = listen.complete(first)
    [interim] = listen.guess(second, "you")
    assert (final["start"] + final["duration"], interim["start"]) == (1.001, 1.001)


def test_finalize_of_nothing_is_answered_too() -> None:
    listen = Listen()
    [final] = listen.tell(FINALIZE)
    assert (text_of(final), flags(final)) == ("", (True, False, True))


def test_finalize_of_nothing_is_answered_behind_what_was_said() -> None:
    listen = Listen()
    item = listen.begins()
    assert listen.tell(FINALIZE) == [] == listen.tell(FINALIZE)
    listen.say(item, "hi")
    assert [flags(frame) for frame in listen.complete(item)] == [(True, False, True)]


def test_a_pause_before_finalize_is_still_an_end_of_speech() -> None:
    listen = Listen()
    first = listen.begins()
    listen.stops()
    listen.talk(0.5)
    listen.tell(FINALIZE)
    second = next(reversed(listen.started))
    assert second != first, "the silence behind it may have held the beginning of a word"
    listen.say(first, "hi")
    assert flags(listen.complete(first)[0]) == (True, True, False)
    assert flags(listen.complete(second)[0]) == (True, False, True)


@pytest.mark.parametrize("end", [CLOSE, b""])
def test_the_end_of_the_stream_flushes_and_tells_what_was_heard(end: Any) -> None:
    listen = Listen(created_at=1_700_000_000.5)
    item = listen.begins(2.0)
    assert listen.tell(end) == [] == listen.closes
    listen.say(item, "bye")
    final, metadata = listen.complete(item)
    assert (text_of(final), flags(final)) == ("bye", (True, True, False))
    assert metadata["type"] == "Metadata" and metadata["request_id"] == SESSION
    assert metadata["duration"] == 2.0
    assert metadata["sha256"] == hashlib.sha256(bytes(64_000)).hexdigest()
    assert metadata["created"] == "2023-11-14T22:13:20.500Z"
    assert [close.code for close in listen.closes] == [1000]


def test_an_empty_stream_ends_with_its_metadata() -> None:
    listen = Listen()
    [metadata] = listen.tell(CLOSE)
    assert metadata["duration"] == 0.0 and [close.code for close in listen.closes] == [1000]


def test_speech_is_announced_on_request() -> None:
    listen = Listen("vad_events=true")
    listen.talk(1.5)
    listen.begins()
    assert listen.frames == [{"type": "SpeechStarted", "channel": [0], "timestamp": 1.5}]


def test_a_silence_is_told_once_behind_the_text_before_it() -> None:
    listen = Listen("interim_results=true&utterance_end_ms=1000")
    item = listen.begins(2.0)
    listen.stops()
    listen.talk(1.0, voiced_until=32_000)
    listen.say(item, "hi")
    final, end = listen.complete(item)
    assert final["speech_final"]
    assert end == {"type": "UtteranceEnd", "channel": [0, 1], "last_word_end": 2.0}
    assert listen.talk(5.0, voiced_until=32_000) == []


def test_an_open_turn_may_fall_silent_too() -> None:
    listen = Listen("utterance_end_ms=1000&endpointing=5000&interim_results=true")
    item = listen.begins(2.0)
    listen.guess(item, "hi")
    [end] = listen.talk(1.5, voiced_until=32_000, speaking=True)
    assert end["type"] == "UtteranceEnd"


def test_noise_is_no_utterance() -> None:
    listen = Listen("utterance_end_ms=1000")
    item = listen.begins()
    listen.stops()
    listen.talk(1.0, voiced_until=16_000)
    assert [text_of(frame) for frame in listen.complete(item)] == [""]


def test_a_failed_turn_says_why_and_loses_nothing() -> None:
    listen = Listen()
    item = listen.begins()
    listen.say(item, "so far")
    listen.stops()
    error, final = listen.fail(item)
    assert (error["variant"], error["description"]) == ("server_error", "asked to fail")
    assert (text_of(final), flags(final)) == ("so far", (True, True, False))


def test_keyterms_are_told_to_the_model_and_may_be_replaced() -> None:
    listen = Listen("keyterm=Ada+Lovelace&keyterm=Babbage&keywords=engine:2.5")
    first = listen.begins()
    assert listen.started[first].settings.keywords == ("Ada Lovelace", "Babbage", "engine")
    [told] = listen.tell({"type": "Configure", "keyterms": ["Turing"]})
    assert told == {"type": "ConfigureSuccess", "request_id": SESSION, "keyterms": ["Turing"]}
    listen.stops()
    assert listen.started[listen.begins()].settings.keywords == ("Turing",)
    [told] = listen.tell({"type": "Configure", "keyterms": [str(i) for i in range(101)]})
    assert told["code"] == "CONFIGURE_KEYTERM_LIMIT_EXCEEDED"
    [told] = listen.tell({"type": "Configure", "features": {"redact": True}})
    assert told["type"] == "ConfigureFailure" and "features.redact" in told["description"]


def test_the_language_is_told_to_who_leaves_it_open() -> None:
    listen = Listen("language=multi")
    item = listen.begins()
    assert listen.started[item].settings.language is None
    listen.say(item, "hallo")
    listen.stops()
    [final] = listen.complete(item, "de")
    assert final["channel"]["alternatives"][0]["languages"] == ["de"]


@pytest.mark.parametrize(
    "message, named",
    [
        ("no json", "message"),
        ("[1]", "message"),
        ('{"type": "Stop"}', "type"),
        ("{}", "type"),
        ('{"type": "Finalize", "channel": 1}', "channel"),
        ('{"type": "Configure", "keyterms": "one"}', "keyterms"),
        ('{"type": "\\ud800"}', "message"),
    ],
)
def test_what_is_no_message_is_refused_and_the_session_goes_on(message: str, named: str) -> None:
    listen = Listen()
    [error] = listen.tell(message)
    assert error["variant"] == "SchemaError" and error["description"].startswith(f"{named}: ")
    assert listen.tell(KEEP_ALIVE) == [] == listen.closes
