"""Speech in a conversation with a model that hears: it reaches it as it sounds, and older speech as
text."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import pytest

from lookhear.engine.messages import SAMPLE_RATE
from lookhear.gateway.realtime.answering.limits import DialogueLimits
from lookhear.gateway.realtime.listening import turn as turns
from lookhear.media.voice.vad import SpeechStarted, SpeechStopped
from tests.gateway.conversing import MODELS, Talk, image, said
from tests.gateway.fake_chat import OMNI, VISION

ALL = [*MODELS, OMNI]
DEAF = [VISION]
RATE = 24_000  # of the wire


def audio(seconds: float) -> dict[str, Any]:
    data = base64.b64encode(bytes(2 * round(seconds * RATE))).decode()
    return {"type": "input_audio", "audio": data}


def spoken(seconds: float, *more: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"type": "message", "role": "user", "content": [audio(seconds), *more], **fields}


def talk_with(**options: Any) -> Talk:
    return Talk(**{"requested_model": OMNI.id, "models": ALL, **options})


def utter(talk: Talk, seconds: float = 1.0) -> str:
    """Somebody speaks; returns the turn, committed and not transcribed."""
    talk.hear(0.5)
    start = talk.position
    talk.hear(seconds, [SpeechStarted(start)], speaking=True)
    talk.hear(0.5, [SpeechStopped(talk.position)], voiced_until=talk.position)
    return talk.ended[-1]


def test_an_item_is_heard_and_needs_no_transcript() -> None:
    talk = talk_with()
    talk.create(spoken(1.0, image("a"), id="u"))
    assert talk.ended, "its transcript is for the client"
    talk.respond()
    assert talk.prompt() == [("user", "(u.sound0)", "<a>")]
    assert len(talk.recordings[OMNI.id, "u.sound0"].samples) == SAMPLE_RATE
    talk.say(talk.ended[0], "hello")
    talk.complete(talk.ended[0])
    talk.reply("yes")
    talk.respond()
    assert talk.prompt()[0] == ("user", "(u.sound0)", "<a>"), "the prompt goes on as it began"
    talk.reply("yes")
    talk.client("conversation.item.delete", item_id="u")
    assert not talk.recordings and "u.sound0" in talk.dropped


def test_a_spoken_turn_is_answered_by_its_sound() -> None:
    talk = talk_with()
    turn = utter(talk)
    assert not talk.asked, "nothing said, nothing answered: the transcript tells"
    talk.say(turn, "hello")
    talk.complete(turn)
    assert talk.prompt() == [("user", f"({turn}.sound)")]
    held = talk.recordings[OMNI.id, f"{turn}.sound"]
    assert np.array_equal(held.samples, np.concatenate(talk.audio[turn])), "no sample more or less"
    talk.reply("yes")


def test_a_turn_that_was_answered_by_its_sound_is_not_answered_again_by_its_transcript() -> None:
    talk = talk_with()
    turn = utter(talk)
    talk.respond()
    assert talk.prompt() == [("user", f"({turn}.sound)")]
    talk.reply("yes")
    talk.say(turn, "hello")
    talk.complete(turn)
    assert len(talk.asked) == 1


def test_silence_is_not_answered() -> None:
    talk = talk_with()
    talk.complete(utter(talk))
    assert not talk.asked


def test_a_failed_transcript_does_not_matter() -> None:
    talk = talk_with()
    talk.create(spoken(1.0, id="u"))
    talk.fail(talk.ended[0])
    talk.respond()
    assert talk.prompt() == [("user", "(u.sound0)")]


def test_without_a_model_that_transcribes_items_are_heard() -> None:
    talk = talk_with(models=[VISION, OMNI])
    frames = talk.create(spoken(1.0, id="u"))
    assert [frame["type"] for frame in frames] == [
        "conversation.item.added",
        "conversation.item.done",
    ]
    assert not talk.started
    talk.respond()
    assert talk.prompt() == [("user", "(u.sound0)")]


def test_a_model_without_ears_says_so() -> None:
    talk = Talk(models=DEAF)
    (problem,) = talk.create(spoken(1.0))
    assert problem["error"]["code"] == "unsupported_audio"
    assert problem["error"]["param"] == "item.content[0].audio"
    assert "the one that answers does not hear" in problem["error"]["message"]


def test_who_is_asked_later_reads_what_was_said() -> None:
    """The session goes over to a model without ears, and back."""
    talk = talk_with()
    talk.create(spoken(1.0, id="u"))
    talk.say(talk.ended[0], "hello")
    talk.complete(talk.ended[0])
    talk.respond()
    talk.reply("yes")
    talk.update({"model": VISION.id})
    assert not talk.recordings, "its engine may be started anew"
    talk.respond()
    assert talk.prompt()[0] == ("user", "hello")
    talk.reply("no")
    talk.update({"model": OMNI.id})
    talk.respond()
    assert talk.prompt()[0] == ("user", "(u.sound0)")


def test_old_speech_is_text_alone() -> None:
    talk = talk_with(limits=DialogueLimits(max_spoken_seconds=4.0))
    for number in range(4):
        talk.create(spoken(1.5, id=f"u{number}"))
        talk.say(talk.ended[-1], f"word {number}")
        talk.complete(talk.ended[-1])
        talk.respond()
        talk.reply("yes")
    talk.respond()
    users = [line for line in talk.prompt() if line[0] == "user"]
    # With the third there were 4.5 s: two of them went.
    assert users == [("user", "word 0"), ("user", "word 1"), ("user", "(u2.sound0)"),
                     ("user", "(u3.sound0)")]  # fmt: skip
    assert {name for _, name in talk.recordings} == {"u2.sound0", "u3.sound0"}


def test_what_can_only_be_heard_has_to_have_room() -> None:
    limits = DialogueLimits(max_spoken_seconds=2.0)
    talk = talk_with(models=[OMNI], limits=limits)
    talk.create(spoken(1.5, id="u"))
    (problem,) = talk.create(spoken(1.0))
    assert (problem["error"]["code"], problem["error"]["param"]) == ("audio_too_long", "item")
    talk.client("conversation.item.delete", item_id="u")
    talk.create(spoken(1.0, id="v"))
    talk.respond()
    assert talk.prompt() == [("user", "(v.sound0)")]


def test_a_turn_that_is_too_long_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "MOST_SPOKEN", 2.0)
    talk = talk_with()
    turn = utter(talk, 3.0)
    talk.say(turn, "a long story")
    talk.complete(turn)
    assert talk.prompt() == [("user", "a long story")] and not talk.recordings


def test_eager_answers_are_not_begun_about_what_is_not_yet_heard() -> None:
    talk = talk_with()
    talk.update({"lookhear": {"eager": True}})
    talk.hear(0.5)
    talk.hear(1.0, [SpeechStarted(talk.position)], speaking=True)
    turn = list(talk.started)[-1]
    talk.say(turn, "Hello there.")
    talk.hear(0.4, voiced_until=talk.position - 100, speaking=True)
    assert not talk.asked and not talk.ahead
    talk.hear(0.5, [SpeechStopped(talk.position)], voiced_until=talk.position)
    talk.complete(turn)
    assert talk.prompt() == [("user", f"({turn}.sound)")]


def test_audio_tokens_are_counted() -> None:
    talk = talk_with()
    talk.create(spoken(1.0, said("x")["content"][0]))
    talk.respond()
    talk.begin(prompt=30, audio=13, image=4)
    talk.end(prompt=30, audio=13, image=4)
    details = talk.done[-1]["usage"]["input_token_details"]
    assert (details["audio_tokens"], details["text_tokens"], details["image_tokens"]) == (13, 13, 4)
