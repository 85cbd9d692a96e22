"""The session's state machine: turns, commits, order of events. No sockets, no clocks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lookhear.engine.messages import EngineFailed
from lookhear.media.voice.vad import SpeechStarted, SpeechStopped, VadEvent
from tests.gateway.fake_engine import CARDS
from tests.gateway.scripted import Script, kinds

MANUAL: dict[str, Any] = {"audio": {"input": {"turn_detection": None}}}
SECOND = 16_000


def manual(**options: Any) -> Script:
    script = Script(**options)
    script.update(MANUAL)
    return script


def test_created_comes_first_with_the_whole_configuration() -> None:
    created = Script().frames[0]
    assert created["type"] == "session.created"
    assert created["session"] == {
        "type": "transcription",
        "id": "sess_1",
        "object": "realtime.transcription_session",
        "audio": {
            "input": {
                "format": {"type": "audio/pcm", "rate": 24000},
                "transcription": {"model": "fake/whisper"},
                "turn_detection": {
                    "type": "server_vad",
                    "threshold": 0.5,
                    "prefix_padding_ms": 300,
                    "silence_duration_ms": 500,
                },
            }
        },
    }


def test_a_model_of_the_url_is_used_and_an_unknown_one_told() -> None:
    assert Script(requested_model="fake-english").protocol.settings.model == "fake-english"
    created, problem = Script(requested_model="whisper-9").frames
    assert created["type"] == "session.created"
    assert problem["error"]["code"] == "model_not_found"
    assert "whisper-9" in problem["error"]["message"]


def test_manual_turn_in_full() -> None:
    script = manual()
    assert script.hear(0.5) == []
    assert script.started["item_1"].settings.model == "fake/whisper"
    assert kinds(script.say("item_1", "Hello")) == ["delta"]
    script.hear(0.5)
    assert kinds(script.client("input_audio_buffer.commit")) == ["committed", "added", "done"]
    assert script.last[0]["previous_item_id"] is None
    assert script.last[1]["item"]["content"] == [{"type": "input_audio", "transcript": None}]
    assert script.ended == ["item_1"]
    script.say("item_1", " there")
    script.now += 0.25
    (completed,) = script.complete("item_1", "de")
    assert completed["transcript"] == "Hello there"
    assert completed["usage"] == {"type": "duration", "seconds": 1.0}
    assert completed["languages"] == [{"code": "de"}]
    assert "logprobs" not in completed
    assert [(f.seconds, f.lag) for f in script.finished] == [(1.0, 0.25)]
    assert script.samples("item_1") == list(range(SECOND))


def test_items_name_the_one_before() -> None:
    script = manual()
    for _ in range(3):
        script.hear(0.1)
        script.client("input_audio_buffer.commit")
    chain = [f["previous_item_id"] for f in script.frames if f["type"].endswith("committed")]
    assert chain == [None, "item_1", "item_2"]


def test_turns_may_complete_in_any_order() -> None:
    script = manual()
    for _ in range(2):
        script.hear(0.1)
        script.client("input_audio_buffer.commit")
    assert script.protocol.pending_turns == 2
    assert script.complete("item_2")[0]["item_id"] == "item_2"
    assert script.complete("item_1")[0]["item_id"] == "item_1"
    assert script.protocol.pending_turns == 0


def test_voice_opens_a_turn_with_padding_and_closes_it() -> None:
    script = Script()
    script.hear(1.0, voiced_until=0)
    frames = script.hear(0.1, [SpeechStarted(12_000)], speaking=True)
    assert kinds(frames) == ["speech_started"]
    assert frames[0]["audio_start_ms"] == 750
    assert frames[0]["item_id"] == "item_1"
    script.hear(1.0, speaking=True)
    frames = script.hear(0.2, [SpeechStopped(35_000)], voiced_until=27_000)
    assert kinds(frames) == ["speech_stopped", "committed", "added", "done"]
    assert frames[0]["audio_end_ms"] == 35_000 // 16
    assert {frame.get("item_id", "item_1") for frame in frames} == {"item_1"}
    assert script.samples("item_1") == list(range(12_000, 35_000))
    assert script.voiced["item_1"] == 33_600 - 12_000  # what the detector had said before


def test_two_turns_in_one_piece_of_audio() -> None:
    script = Script()
    events: list[VadEvent] = [
        SpeechStarted(1000),
        SpeechStopped(9000),
        SpeechStarted(12_000),
        SpeechStopped(20_000),
    ]
    script.hear(2.0, events)
    assert (
        kinds(script.last) == ["speech_started", "speech_stopped", "committed", "added", "done"] * 2
    )
    assert script.samples("item_1") == list(range(1000, 9000))
    assert script.samples("item_2") == list(range(12_000, 20_000))


def test_padding_never_repeats_what_was_committed() -> None:
    script = Script()
    script.hear(1.0, [SpeechStarted(0), SpeechStopped(15_000)])
    script.hear(0.1, [SpeechStarted(11_000)], speaking=True)
    assert script.samples("item_2")[0] == 15_000
    started = [f["audio_start_ms"] for f in script.frames if f["type"].endswith("speech_started")]
    assert started == [0, 15_000 // 16]


def test_commit_in_mid_speech_takes_what_is_there() -> None:
    script = Script()
    script.hear(1.0, [SpeechStarted(4000)], speaking=True)
    frames = script.client("input_audio_buffer.commit")
    assert kinds(frames) == ["speech_stopped", "committed", "added", "done"]
    script.hear(0.2, [SpeechStarted(14_000)], speaking=True)  # the person speaks on
    assert script.samples("item_1") + script.samples("item_2") == list(range(4000, 19_200))


def test_commit_before_the_detector_is_sure_loses_nothing() -> None:
    script = Script()
    script.hear(0.1, voiced_until=0)
    assert kinds(script.client("input_audio_buffer.commit")) == ["committed", "added", "done"]
    assert script.samples("item_1") == list(range(1600))


@pytest.mark.parametrize("session", [None, MANUAL])
def test_empty_commit_is_an_error_and_nothing_more(session: dict[str, Any] | None) -> None:
    script = Script()
    script.update(session)
    (problem,) = script.client("input_audio_buffer.commit", event_id="mine")
    assert problem["error"]["code"] == "input_audio_buffer_commit_empty"
    assert problem["error"]["event_id"] == "mine"
    script.hear(0.1)
    script.client("input_audio_buffer.commit")
    (problem,) = script.client("input_audio_buffer.commit")
    assert problem["error"]["code"] == "input_audio_buffer_commit_empty"
    assert script.closes == []


def test_clear_forgets_the_turn() -> None:
    script = manual()
    script.hear(0.5)
    script.say("item_1", "gone")
    assert kinds(script.client("input_audio_buffer.clear")) == ["cleared"]
    assert script.cancelled == ["item_1"]
    assert script.say("item_1", " late") == []  # was on its way when the turn was cleared
    assert kinds(script.client("input_audio_buffer.commit")) == ["error"]
    script.hear(0.5)
    assert script.samples("item_2") == list(range(8000, 16_000))


def test_switching_to_manual_in_mid_speech_leaves_the_turn_open() -> None:
    script = Script()
    script.hear(1.0, [SpeechStarted(4000)], speaking=True)
    script.update(MANUAL)
    assert kinds(script.hear(1.0, [SpeechStopped(20_000)])) == []
    frames = script.client("input_audio_buffer.commit")
    assert kinds(frames) == ["speech_stopped", "committed", "added", "done"]
    assert script.samples("item_1") == list(range(4000, 32_000))


def test_switching_to_voice_in_mid_speech_announces_the_open_turn() -> None:
    script = manual()
    script.hear(1.0, speaking=True)
    frames = script.update({"audio": {"input": {"turn_detection": {"type": "server_vad"}}}})
    assert kinds(frames) == ["updated", "speech_started"]
    assert frames[1]["item_id"] == "item_1"
    frames = script.hear(1.0, [SpeechStopped(30_000)])
    assert kinds(frames) == ["speech_stopped", "committed", "added", "done"]
    assert script.samples("item_1") == list(range(30_000))


def test_switching_to_voice_in_a_pause_keeps_the_open_turn_for_the_next_speech() -> None:
    script = manual()
    script.hear(1.0)
    script.update({"audio": {"input": {"turn_detection": {"type": "server_vad"}}}})
    script.hear(1.0, [SpeechStarted(25_000)], speaking=True)
    script.hear(0.5, [SpeechStopped(38_000)])
    assert list(script.started) == ["item_1"]
    assert script.samples("item_1") == list(range(38_000))


def test_settings_apply_to_the_next_turn() -> None:
    script = manual()
    script.hear(0.1)
    script.update({"audio": {"input": {"transcription": {"language": "de", "prompt": "Hut"}}}})
    script.client("input_audio_buffer.commit")
    script.hear(0.1)
    assert script.started["item_1"].settings.language is None
    assert script.started["item_2"].settings.language == "de"
    assert script.started["item_2"].settings.prompt == "Hut"


def test_logprobs_only_when_included() -> None:
    script = manual()
    script.update({"include": ["item.input_audio_transcription.logprobs"]})
    script.hear(0.1)
    (delta,) = script.say("item_1", "ä")
    assert delta["logprobs"] == [{"token": "ä", "logprob": -0.1, "bytes": [195, 164]}]
    script.client("input_audio_buffer.commit")
    assert script.complete("item_1")[0]["logprobs"] == delta["logprobs"]


def test_a_session_says_which_of_its_models_are_toys() -> None:
    toy = replace(CARDS[0], toy=True)
    for cards, toys in (([toy, CARDS[1]], [toy.id]), ([CARDS[1], toy], None)):
        script = manual(models=cards)
        (updated,) = script.update({"lookhear": {"words": False}})
        assert updated["session"]["lookhear"].get("toys") == toys


def test_extensions_only_when_asked_for() -> None:
    script = manual()
    script.hear(0.1)
    assert script.guess("item_1", "maybe") == []
    assert kinds(script.say("item_1", "yes")) == ["delta"]
    assert "lookhear" not in script.frames[1]["session"]
    script.client("input_audio_buffer.clear")
    (updated,) = script.update({"lookhear": {"provisional": True, "words": True}})
    assert updated["session"]["lookhear"] == {"provisional": True, "words": True}
    script.hear(0.1)
    (guess,) = script.guess("item_2", "maybe")
    assert guess["type"] == "lookhear.input_audio_transcription.provisional"
    assert guess["text"] == "maybe"
    delta, words = script.say("item_2", "yes")
    assert words["type"] == "lookhear.input_audio_transcription.words"
    assert words["words"] == [{"word": "yes", "start": 0.0, "end": 0.1, "probability": 0.9}]


def test_failure_after_the_commit() -> None:
    script = manual()
    script.hear(0.1)
    script.client("input_audio_buffer.commit")
    (failed,) = script.fail("item_1", "audio_too_long")
    assert failed["type"].endswith(".failed")
    assert failed["error"]["code"] == "audio_too_long"
    assert [f.lag for f in script.finished] == [None]


def test_failure_before_the_commit_is_told_after_it() -> None:
    script = manual()
    script.hear(0.1)
    assert script.fail("item_1") == []
    script.hear(0.1)
    frames = script.client("input_audio_buffer.commit")
    assert kinds(frames) == ["committed", "added", "done", "failed"]
    assert script.ended == []  # the engine has forgotten it
    assert script.protocol.pending_turns == 0


def test_a_manual_turn_that_is_too_long_keeps_its_beginning() -> None:
    script = manual(max_turn=1)
    (problem,) = script.hear(1.5)
    assert problem["error"]["code"] == "input_audio_buffer_full"
    assert script.hear(0.5) == []  # told once
    script.client("input_audio_buffer.commit")
    assert script.samples("item_1") == list(range(SECOND))
    script.hear(0.5)
    assert script.samples("item_2") == list(range(2 * SECOND, 2 * SECOND + 8000))


def test_speech_that_never_pauses_is_cut_and_goes_on() -> None:
    script = Script(max_turn=1)
    script.hear(2.5, [SpeechStarted(0)], speaking=True)
    turn = ["speech_started", "speech_stopped", "committed", "added", "done"]
    assert kinds(script.last) == [*turn, *turn, "speech_started"]
    heard = [sample for item in script.started for sample in script.samples(item)]
    assert heard == list(range(40_000))


def test_items_can_be_retrieved_and_deleted() -> None:
    script = manual()
    script.hear(0.1)
    script.client("input_audio_buffer.commit")
    script.say("item_1", "Hi")
    script.complete("item_1")
    (retrieved,) = script.client("conversation.item.retrieve", item_id="item_1")
    assert retrieved["item"]["content"][0]["transcript"] == "Hi"
    assert kinds(script.client("conversation.item.delete", item_id="item_1")) == ["deleted"]
    for event in ("retrieve", "delete"):
        (problem,) = script.client(f"conversation.item.{event}", item_id="item_1", event_id="e")
        assert problem["error"]["code"] == "item_not_found"
        assert problem["error"]["param"] == "item_id"
        assert problem["error"]["event_id"] == "e"


def test_a_deleted_item_still_completes() -> None:
    script = manual()
    script.hear(0.1)
    script.client("input_audio_buffer.commit")
    script.client("conversation.item.delete", item_id="item_1")
    assert kinds(script.complete("item_1")) == ["completed"]


def test_only_the_newest_items_are_kept() -> None:
    script = manual()
    for _ in range(7):
        script.hear(0.1)
        script.client("input_audio_buffer.commit")
    assert kinds(script.client("conversation.item.retrieve", item_id="item_2")) == ["error"]
    assert kinds(script.client("conversation.item.retrieve", item_id="item_3")) == ["retrieved"]


@pytest.mark.parametrize(
    ("event", "code"),
    [
        ("response.create", "unsupported_event"),
        ("conversation.item.create", "unsupported_event"),
        ("conversation.item.truncate", "unsupported_event"),
        ("response.cancel", "response_cancel_not_active"),
    ],
)
def test_transcription_sessions_do_not_converse(event: str, code: str) -> None:
    said = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]}
    fields = {"item": said, "item_id": "item_1", "content_index": 0, "audio_end_ms": 0}
    (problem,) = Script().client(event, event_id="e", **fields)
    assert problem["error"]["code"] == code
    assert "do not respond" in problem["error"]["message"]
    assert problem["error"]["event_id"] == "e"


def test_clearing_audio_that_is_never_played_is_no_error() -> None:
    assert Script().client("output_audio_buffer.clear") == []


def test_a_dead_engine_is_one_error_and_a_close() -> None:
    script = manual()
    script.hear(0.1)
    (problem,) = script.engine(EngineFailed("engine_died", "it ended unexpectedly"))
    assert problem["error"]["type"] == "server_error"
    assert [close.code for close in script.closes] == [1012]


def test_silence_costs_nothing() -> None:
    script = Script()
    for _ in range(50):
        script.hear(1.0, voiced_until=0)
    assert script.started == {}
    recent = script.protocol._turns._recent
    assert len(recent.slice(recent.start, script.position)) == (round((0.3 + 0.5) * SECOND))
