"""Speech as the question: voice detection, transcripts, answers, and barge-in."""

from __future__ import annotations

from typing import Any

import pytest

from lookhear.media.voice.vad import SpeechStarted, SpeechStopped
from tests.gateway.conversing import Talk, said
from tests.gateway.scripted import kinds

SECOND = 16_000


def speaks(talk: Talk, seconds: float = 1.0) -> str:
    """Somebody speaks and pauses; -> the item."""
    start = talk.position
    talk.hear(seconds, [SpeechStarted(start)], speaking=True)
    talk.hear(0.5, [SpeechStopped(talk.position + 8000)])
    return next(reversed(talk.started))


def starts(talk: Talk) -> list[dict[str, Any]]:
    return talk.hear(0.5, [SpeechStarted(talk.position)], speaking=True)


def detection(**fields: bool) -> dict[str, Any]:
    return {"audio": {"input": {"turn_detection": {"type": "server_vad", **fields}}}}


def test_a_spoken_question_is_answered_once_it_is_transcribed() -> None:
    talk = Talk()
    item = speaks(talk)
    assert kinds(talk.last) == ["speech_stopped", "committed", "added", "done"]
    talk.say(item, "What is this?")
    frames = talk.complete(item)
    assert [f["type"] for f in frames][1:] == ["response.created"]
    assert talk.prompt() == [("user", "What is this?")]
    frames = talk.reply("A square")
    assert frames[1]["previous_item_id"] == item
    assert frames[-1]["response"]["status"] == "completed"


def test_noise_is_not_answered() -> None:
    talk = Talk()
    item = speaks(talk)
    assert kinds(talk.complete(item)) == ["completed"]
    item = speaks(talk)
    assert kinds(talk.fail(item)) == ["failed"]
    assert talk.asked == []


def test_answers_on_request_only() -> None:
    talk = Talk()
    talk.update(detection(create_response=False))
    assert talk.last[0]["session"]["audio"]["input"]["turn_detection"]["create_response"] is False
    item = speaks(talk)
    talk.respond()
    assert talk.asked == []
    talk.say(item, "What?")
    talk.complete(item)
    assert talk.prompt() == [("user", "What?")]


def test_a_commit_by_hand_starts_nothing() -> None:
    talk = Talk()
    talk.update({"audio": {"input": {"turn_detection": None}}})
    talk.hear(1.0)
    talk.client("input_audio_buffer.commit")
    talk.say("item_1", "What?")
    assert kinds(talk.complete("item_1")) == ["completed"]
    talk.respond()
    assert talk.prompt() == [("user", "What?")]


def test_speech_ends_the_answer_under_way() -> None:
    talk = Talk()
    talk.say_text("Tell me a story")
    talk.respond()
    talk.begin()
    talk.speak("Once")
    frames = starts(talk)
    assert frames[0]["type"] == "input_audio_buffer.speech_started"
    assert frames[-1]["response"]["status_details"] == {
        "type": "cancelled",
        "reason": "turn_detected",
    }
    talk.hear(0.5, [SpeechStopped(talk.position + 8000)])
    item = next(reversed(talk.started))
    talk.say(item, "A shorter one")
    talk.complete(item)
    assert talk.prompt() == [
        ("user", "Tell me a story"),
        ("assistant", "Once"),
        ("user", "A shorter one"),
    ]


def test_speech_that_does_not_interrupt_is_answered_afterwards() -> None:
    talk = Talk()
    talk.update(detection(interrupt_response=False))
    talk.say_text("Tell me a story")
    talk.respond()
    talk.begin()
    item = speaks(talk)
    talk.say(item, "And then?")
    assert kinds(talk.complete(item)) == ["completed"]
    frames = talk.end()
    assert kinds(frames)[-2:] == ["done", "created"]
    assert talk.prompt()[-1] == ("user", "Tell me a story", "\n", "And then?")


def test_who_speaks_on_is_answered_once() -> None:
    talk = Talk()
    first = speaks(talk)
    starts(talk)
    talk.say(first, "What")
    assert kinds(talk.complete(first)) == ["completed"]  # somebody speaks
    talk.hear(0.5, [SpeechStopped(talk.position + 8000)])
    second = next(reversed(talk.started))
    talk.say(second, "is this?")
    talk.complete(second)
    assert talk.prompt() == [("user", "What", "\n", "is this?")]
    assert len(talk.asked) == 1


def test_who_asks_for_the_answer_gets_one() -> None:
    talk = Talk()
    item = speaks(talk)
    talk.respond()
    talk.say(item, "What?")
    talk.complete(item)
    talk.reply("A square")
    assert len(talk.asked) == 1


def test_a_response_that_was_cancelled_does_not_come_back_with_the_transcript() -> None:
    talk = Talk()
    item = speaks(talk)
    talk.respond()
    talk.client("response.cancel")
    talk.say(item, "What?")
    assert kinds(talk.complete(item)) == ["completed"]


def test_who_is_interrupted_before_the_transcript_is_answered_once() -> None:
    talk = Talk()
    item = speaks(talk)
    talk.respond()
    starts(talk)
    assert talk.done[-1]["status_details"]["reason"] == "turn_detected"
    talk.say(item, "What?")
    talk.complete(item)
    assert talk.asked == []
    talk.client("input_audio_buffer.clear")
    assert talk.prompt() == [("user", "What?")]


def coughs(talk: Talk) -> None:
    """There is a sound, but no word."""
    starts(talk)
    talk.hear(0.5, [SpeechStopped(talk.position + 8000)])
    talk.complete(next(reversed(talk.started)))


@pytest.mark.parametrize("asked_by", ["voice", "client", "reference"])
def test_who_coughs_while_the_model_reads_is_answered(asked_by: str) -> None:
    talk = Talk()
    question = speaks(talk)
    if asked_by == "client":
        talk.respond()
    elif asked_by == "reference":
        talk.respond({"input": [{"type": "item_reference", "id": question}]})
    talk.say(question, "What?")
    talk.complete(question)
    coughs(talk)
    assert talk.done[-1]["status_details"]["reason"] == "turn_detected"
    assert len(talk.asked) == 2 and talk.prompt() == [("user", "What?")]
    talk.begin()  # its item is open, and says nothing yet
    coughs(talk)
    assert len(talk.asked) == 3 and talk.prompt() == [("user", "What?")]
    talk.break_off("context_length_exceeded")
    assert talk.done[-1]["status_details"]["error"]["code"] == "context_length_exceeded"


def test_who_coughs_is_not_answered_again_once_a_word_was_said() -> None:
    talk = Talk()
    question = speaks(talk)
    talk.say(question, "What?")
    talk.complete(question)
    talk.begin()
    talk.speak("It")
    coughs(talk)
    assert len(talk.asked) == 1


def test_who_coughs_and_takes_the_question_back_is_not_answered() -> None:
    talk = Talk()
    question = speaks(talk)
    talk.say(question, "What?")
    talk.complete(question)
    talk.client("conversation.item.delete", item_id=question)
    coughs(talk)
    assert len(talk.asked) == 1


def test_what_is_deleted_before_its_transcript_is_not_answered() -> None:
    talk = Talk()
    talk.say_text("Hi")
    talk.respond()
    talk.reply("Hello")
    item = speaks(talk)
    talk.client("conversation.item.delete", item_id=item)
    talk.say(item, "What?")
    assert kinds(talk.complete(item)) == ["completed"]


def test_an_owed_answer_comes_when_the_rest_was_noise_or_is_cleared() -> None:
    talk = Talk()
    first = speaks(talk)
    starts(talk)
    talk.say(first, "What?")
    talk.complete(first)
    frames = talk.client("input_audio_buffer.clear")
    assert kinds(frames) == ["cleared", "created"]
    assert talk.prompt() == [("user", "What?")]


def test_who_asks_while_they_speak_on_is_not_answered_again() -> None:
    talk = Talk()
    first = speaks(talk)
    starts(talk)
    talk.say(first, "What?")
    talk.complete(first)  # an answer is owed, once nobody speaks
    talk.respond()
    assert talk.prompt() == [("user", "What?")]
    talk.reply("A square")
    talk.client("input_audio_buffer.clear")  # what they began to say is taken back
    assert len(talk.asked) == 1


def owes() -> tuple[Talk, str]:
    """Somebody asks, and speaks on before they are answered. -> the question."""
    talk = Talk()
    question = speaks(talk)
    starts(talk)
    talk.say(question, "What?")
    talk.complete(question)
    return talk, question


def test_what_is_deleted_while_its_answer_is_owed_is_not_answered() -> None:
    talk, question = owes()
    talk.client("conversation.item.delete", item_id=question)
    assert kinds(talk.client("input_audio_buffer.clear")) == ["cleared"]
    talk, question = owes()
    second = talk.hear(0.5, [SpeechStopped(talk.position + 8000)])[1]["item_id"]
    talk.client("conversation.item.delete", item_id=question)
    talk.say(second, "And that?")
    talk.complete(second)
    assert talk.prompt() == [("user", "And that?")], "but what else was said is"


def test_what_a_response_refers_to_is_answered_by_it_alone() -> None:
    talk, question = owes()
    talk.respond({"input": [{"type": "item_reference", "id": question}]})
    talk.reply("A square")
    assert kinds(talk.client("input_audio_buffer.clear")) == ["cleared"]
    assert len(talk.asked) == 1


@pytest.mark.parametrize("wanted", [{"type": "server_vad", "create_response": False}, None])
def test_what_is_owed_is_forgotten_where_turns_are_answered_no_more(wanted: Any) -> None:
    talk = Talk()
    talk.update(detection(interrupt_response=False))
    talk.say_text("Tell me a story")
    talk.respond()
    talk.begin()
    item = speaks(talk)
    talk.say(item, "And then?")
    talk.complete(item)
    talk.update({"audio": {"input": {"turn_detection": wanted}}})
    assert kinds(talk.end())[-1] == "done"
    talk.update(detection(create_response=True))
    assert len(talk.asked) == 1


def test_who_asks_something_else_is_still_answered() -> None:
    talk = Talk()
    first = speaks(talk)
    starts(talk)
    talk.say(first, "What?")
    talk.complete(first)
    talk.respond({"input": [said("Hi")]})
    talk.reply("Hello")
    talk.client("input_audio_buffer.clear")
    assert len(talk.asked) == 2 and talk.prompt()[0] == ("user", "What?")


def test_out_of_band_answers_are_not_interrupted() -> None:
    talk = Talk()
    talk.respond({"conversation": "none", "input": [said("Hi")]})
    starts(talk)
    assert list(talk.running) == ["resp_1"]


def test_transcription_sessions_never_answer() -> None:
    talk = Talk(requested_model=None)
    item = speaks(talk)
    talk.say(item, "What?")
    assert kinds(talk.complete(item)) == ["completed"]
    detection = talk.frames[0]["session"]["audio"]["input"]["turn_detection"]
    assert "create_response" not in detection


# --- nobody speaks -------------------------------------------------------------------------------

TIMEOUT: dict[str, Any] = {
    "audio": {"input": {"turn_detection": {"type": "server_vad", "idle_timeout_ms": 5000}}}
}


def answered(talk: Talk) -> None:
    """Somebody asks by voice and has the answer."""
    item = speaks(talk)
    talk.say(item, "What is this?")
    talk.complete(item)
    talk.reply("A square")


def test_a_long_silence_behind_an_answer_is_answered() -> None:
    talk = Talk()
    talk.update(TIMEOUT)
    shown = talk.last[0]["session"]
    assert shown["audio"]["input"]["turn_detection"]["idle_timeout_ms"] == 5000
    assert "ignored" not in shown.get("lookhear", {})
    talk.hear(9.0)
    assert talk.asked == [], "nobody has said anything yet"
    answered(talk)
    begin = talk.position
    for _ in range(9):
        assert talk.hear(0.5) == []
    frames = talk.hear(0.5)
    assert [f["type"] for f in frames] == [
        "input_audio_buffer.timeout_triggered",
        "input_audio_buffer.committed",
        "conversation.item.added",
        "conversation.item.done",
        "conversation.item.input_audio_transcription.completed",
        "response.created",
    ]
    told, committed, added = frames[:3]
    begin_ms = begin // 16
    assert (told["audio_start_ms"], told["audio_end_ms"]) == (begin_ms, begin_ms + 5000)
    assert told["item_id"] == committed["item_id"] == added["item"]["id"]
    assert added["item"]["content"] == [{"type": "input_audio", "transcript": ""}]
    assert talk.prompt() == [("user", "What is this?"), ("assistant", "A square")]
    talk.hear(9.0)  # while it is being answered
    assert len(talk.asked) == 2
    talk.reply("Are you there?")
    talk.hear(4.5)
    item = speaks(talk)  # in time
    talk.hear(5.0)
    talk.complete(item)
    talk.hear(9.0)
    assert len(talk.asked) == 2, "what was said was no answer"


def test_who_waits_for_something_else_is_not_asked_again() -> None:
    talk = Talk()
    answered(talk)
    talk.hear(60.0)
    assert len(talk.asked) == 1, "not wanted"
    talk.update(TIMEOUT)
    talk.say_text("What is that?")  # by hand, and not answered
    talk.hear(60.0)
    assert len(talk.asked) == 1


def test_a_timeout_that_nothing_keeps_to_is_named() -> None:
    talk = Talk()
    field = "audio.input.turn_detection.idle_timeout_ms"
    semantic = {"type": "semantic_vad", "idle_timeout_ms": 6000}
    talk.update({"audio": {"input": {"turn_detection": semantic}}})
    assert talk.last[0]["session"]["lookhear"]["ignored"] == [field]
    talk.update(TIMEOUT)
    assert "ignored" not in talk.last[0]["session"].get("lookhear", {})
    wrong = {"type": "server_vad", "idle_timeout_ms": 100}
    talk.update({"audio": {"input": {"turn_detection": wrong}}})
    error = talk.last[0]["error"]
    assert error["param"] == "session.audio.input.turn_detection.idle_timeout_ms"
