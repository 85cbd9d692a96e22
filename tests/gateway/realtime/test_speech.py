"""Speech as the question: voice detection, transcripts, answers, and barge-in."""

from __future__ import annotations

from typing import Any

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
