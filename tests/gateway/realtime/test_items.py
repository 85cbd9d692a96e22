"""Items of a realtime session: making, finding, deleting them, and the pictures in them."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookhear.gateway.realtime.answering.limits import DialogueLimits
from lookhear.gateway.realtime.listening.under_way import MAX_HELD_UP
from tests.gateway.conversing import MODELS, Talk, image, said, shown
from tests.gateway.fake_chat import VISION
from tests.gateway.scripted import Script

AUDIO = base64.b64encode(bytes(24_000)).decode()  # half a second


def test_items_stand_where_they_are_put() -> None:
    talk = Talk()
    talk.create(said("one", id="a"))
    talk.create(said("three", id="c"), previous_item_id="a")
    added, done = talk.create(said("two", id="b"), previous_item_id="a")
    assert added["previous_item_id"] == done["previous_item_id"] == "a"
    added, _ = talk.create(said("Be kind.", "system", id="s"), previous_item_id="root")
    assert added["previous_item_id"] is None
    talk.create(said("four", "assistant", status="completed", object="realtime.item"))
    talk.respond()
    assert talk.prompt() == [
        ("system", "Be kind."),
        ("user", "one", "\n", "two", "\n", "three"),
        ("assistant", "four"),
    ]


def test_what_an_assistant_said_elsewhere_is_text_here() -> None:
    talk = Talk()
    talk.say_text("Hi")
    spoken = {"type": "output_audio", "transcript": "Hello", "audio": "not read"}
    added, _ = talk.create({**said("x", "assistant", id="a"), "content": [spoken]})
    assert added["item"]["content"] == [{"type": "output_text", "text": "Hello"}]
    talk.say_text("And you?")
    talk.respond()
    assert talk.prompt() == [("user", "Hi"), ("assistant", "Hello"), ("user", "And you?")]


def test_retrieve_and_delete() -> None:
    talk = Talk()
    talk.create(said("one", id="a"))
    (found,) = talk.client("conversation.item.retrieve", item_id="a")
    assert found["item"]["content"] == [{"type": "input_text", "text": "one"}]
    assert talk.client("conversation.item.delete", item_id="a")[0]["item_id"] == "a"
    for event in ("retrieve", "delete"):
        (problem,) = talk.client(f"conversation.item.{event}", item_id="a")
        assert problem["error"]["code"] == "item_not_found"
    talk.create(said("again", id="a"))


def test_an_answer_can_be_deleted_while_it_is_written() -> None:
    talk = Talk()
    talk.say_text("Hi")
    talk.respond()
    frames = talk.begin()
    talk.client("conversation.item.delete", item_id=frames[0]["item"]["id"])
    talk.speak("A")
    frames = talk.end()
    assert [f["type"] for f in frames] == [
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.done",
    ]
    assert frames[-1]["response"]["status"] == "completed"
    talk.respond()
    assert talk.prompt() == [("user", "Hi")]


@pytest.mark.parametrize("first", [False, True])
def test_an_answer_stands_where_its_question_was(first: bool) -> None:
    talk = Talk()
    if not first:
        talk.create(said("Hi", id="before"))
    talk.create(said("What?", id="question"))
    talk.respond()
    talk.create(said("And that?", id="behind"))
    talk.client("conversation.item.delete", item_id="question")
    added = talk.reply("A square")[1]
    assert added["type"] == "conversation.item.added"
    assert added["previous_item_id"] == (None if first else "before")
    talk.respond()
    assert talk.prompt()[-2:] == [("assistant", "A square"), ("user", "And that?")]


def test_what_follows_a_deleted_part_of_an_answer_stands_where_it_was() -> None:
    talk = Talk()
    talk.update({"tools": [{"type": "function", "name": "look"}]})
    talk.create(said("What?", id="question"))
    talk.respond()
    talk.begin()
    message = talk.speak("Let me see")[0]["item"]["id"]
    talk.create(said("And that?", id="behind"))
    talk.client("conversation.item.delete", item_id=message)
    frames = talk.call(0, "look", "{}")
    added = next(f for f in frames if f["type"] == "conversation.item.added")
    assert added["previous_item_id"] == "question"
    assert "conversation.item.done" in [f["type"] for f in talk.end()]


@pytest.mark.parametrize(
    ("fields", "code", "param"),
    [
        ({}, "missing_required_parameter", "item"),
        ({"item": "Hi"}, "invalid_type", "item"),
        ({"item": {}}, "missing_required_parameter", "item.type"),
        ({"item": {"type": "mcp_call"}}, "invalid_value", "item.type"),
        ({"item": {"type": "function_call_output"}}, "missing_required_parameter", "item.call_id"),
        ({"item": {"type": "function_call_output", "call_id": "x", "output": "y"}},
         "invalid_call_id", "item.call_id"),
        ({"item": {"type": "function_call", "name": "f", "arguments": "[]"}}, "invalid_value",
         "item.arguments"),
        ({"item": {"type": "message", "role": "tool"}}, "invalid_value", "item.role"),
        ({"item": {"type": "message", "role": "user"}}, "missing_required_parameter",
         "item.content"),
        ({"item": {**said("x"), "content": ["x"]}}, "invalid_type", "item.content[0]"),
        ({"item": {**said("x"), "content": [{"type": "input_video"}]}}, "invalid_value",
         "item.content[0].type"),
        ({"item": {**said("x"), "content": [{"type": "input_text"}]}},
         "missing_required_parameter", "item.content[0].text"),
        ({"item": {**said("x"), "content": [{"type": "input_audio", "audio": "?"}]}},
         "invalid_base64", "item.content[0].audio"),
        ({"item": {**said("x"), "content": [{"type": "input_audio"}]}},
         "missing_required_parameter", "item.content[0].audio"),
        ({"item": {**said("x"), "role": "system", "content": [image("a")]}}, "invalid_value",
         "item.content[0].type"),
        ({"item": {**said("x"), "role": "assistant"}}, "invalid_value", "item.content[0].type"),
        ({"item": {**said("x", "assistant"), "content": [{"type": "output_audio"}]}},
         "missing_required_parameter", "item.content[0].transcript"),
        ({"item": {**said("x"), "content": [image("a", detail="all")]}}, "invalid_value",
         "item.content[0].detail"),
        ({"item": shown("broken", "What?")}, "invalid_image", "item.content[0].image_url"),
        ({"item": said("x", id="first")}, "item_create_duplicate_item_id", "item.id"),
        ({"item": said("x", id="")}, "invalid_value", "item.id"),
        ({"item": said("x"), "previous_item_id": "nobody"}, "item_not_found", "previous_item_id"),
    ],
)  # fmt: skip
def test_what_cannot_be_an_item(fields: dict[str, Any], code: str, param: str) -> None:
    talk = Talk()
    talk.create(said("one", id="first"))
    (problem,) = talk.client("conversation.item.create", event_id="e", **fields)
    assert (problem["error"]["code"], problem["error"]["param"]) == (code, param), problem
    assert problem["error"]["message"].startswith(f"{param}: expected")
    talk.respond()
    assert talk.prompt() == [("user", "one")]


def test_there_is_no_audio_to_cut() -> None:
    talk = Talk()
    talk.create(said("one", "assistant", id="a"))
    cut: dict[str, Any] = {"content_index": 0, "audio_end_ms": 100}
    (problem,) = talk.client("conversation.item.truncate", item_id="a", **cut)
    assert problem["error"]["param"] == "item_id"
    (problem,) = talk.client("conversation.item.truncate", item_id="b", **cut)
    assert problem["error"]["code"] == "item_not_found"


@given(text=st.text(max_size=20), kept=st.integers(0, 25))
def test_text_of_an_answer_is_cut_where_it_was_heard_to(text: str, kept: int) -> None:
    talk = Talk()
    talk.create(said("one", id="u"))
    talk.create(said(text, "assistant", id="a"))
    cut: dict[str, Any] = {"content_index": 0, "audio_end_ms": 0}
    cut["lookhear"] = {"characters": kept}
    (told,) = talk.client("conversation.item.truncate", item_id="a", **cut)
    if kept > len(text):
        assert told["error"]["param"] == "lookhear.characters"
        kept = len(text)
    else:
        assert told["type"] == "conversation.item.truncated"
    (problem,) = talk.client("conversation.item.truncate", item_id="u", **cut)
    assert problem["error"]["param"] == "item_id"
    talk.say_text("two")
    talk.respond()
    answer = [("assistant", text[:kept])] if text[:kept] else []
    users = [("user", "one"), ("user", "two")] if answer else [("user", "one", "\n", "two")]
    assert talk.prompt() == [*users[:1], *answer, *users[1:]]


def test_limits_of_items_and_text() -> None:
    talk = Talk(max_items=2, limits=DialogueLimits(max_characters=10))
    talk.say_text("12345")
    (problem,) = talk.say_text("123456")
    assert problem["error"]["code"] == "conversation_too_large"
    assert problem["error"]["param"] == "item.content[0].text"
    talk.say_text("12345")
    (problem,) = talk.say_text("")
    assert problem["error"]["code"] == "too_many_items"
    talk.respond()
    talk.reply("A")  # what the server adds pushes out the oldest
    talk.respond()
    assert talk.prompt() == [("user", "12345"), ("assistant", "A")]


def told(transcript: str) -> dict[str, Any]:
    content = [{"type": "input_audio", "transcript": transcript}]
    return {"type": "message", "role": "user", "content": content}


def call(**fields: str) -> dict[str, Any]:
    return {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}", **fields}


@pytest.mark.parametrize(
    ("item", "param"),
    [
        (said("1234"), "item.content[0].text"),
        (told("1234"), "item.content[0].transcript"),
        (call(name="1234"), "item.name"),
        (call(name="12"), "item.arguments"),
    ],
    ids=["text", "transcript", "name", "arguments"],
)
def test_all_that_is_written_counts(item: dict[str, Any], param: str) -> None:
    talk = Talk(limits=DialogueLimits(max_characters=10))
    talk.create(told("1234"))
    talk.create(call(name="x"))
    (problem,) = talk.create(item)
    assert problem["error"]["code"] == "conversation_too_large"
    assert problem["error"]["param"] == param
    talk.create(said("123"))
    assert talk.last[0]["type"] == "conversation.item.added"


# --- pictures ------------------------------------------------------------------------------------


def test_a_picture_is_sent_once_however_often_it_is_shown() -> None:
    talk = Talk()
    talk.create(shown("a", id="first"))
    added = talk.frames[-2]
    assert added["item"]["content"] == [{"type": "input_image", "detail": "auto"}]
    talk.create(shown("a", "What is this?"))
    talk.respond()
    assert list(talk.held) == [("fake/vision", "a")]
    assert talk.prompt() == [("user", "<a>", "<a>", "What is this?")]
    talk.reply("A")
    talk.client("conversation.item.delete", item_id="first")
    assert talk.dropped == []
    talk.client("conversation.item.delete", item_id="item_1")
    assert talk.dropped == ["a"]
    assert talk.held == {}


def test_pictures_are_read_ahead_while_nobody_waits() -> None:
    talk = Talk()
    talk.update({"instructions": "Look."})
    talk.say_text("Hi")
    assert talk.ahead == []
    talk.create(shown("a"))
    assert [m.role for m in talk.ahead[-1].messages] == ["system", "user"]
    talk.respond()
    talk.create(shown("b"))
    assert len(talk.ahead) == 1
    talk.reply("A")
    assert len(talk.ahead) == 2


def test_a_picture_stays_as_long_as_an_answer_may_look_at_it() -> None:
    talk = Talk()
    talk.create(shown("a", id="first"))
    talk.respond()
    talk.client("conversation.item.delete", item_id="first")
    assert talk.dropped == []
    talk.reply("A")
    assert talk.dropped == ["a"]


def test_addresses_are_shown_again_and_details_passed_on() -> None:
    talk = Talk()
    content = [{"type": "input_image", "image_url": "https://example.org/a.png", "detail": "low"}]
    added, _ = talk.create({"type": "message", "role": "user", "content": content})
    assert added["item"]["content"] == content
    talk.respond()
    assert talk.prompt() == [("user", "<https://example.org/a.png low>")]


def test_limits_of_pictures() -> None:
    talk = Talk(limits=DialogueLimits(max_pictures=2, max_pixels=5000))
    talk.create(shown("a", id="first"))
    (problem,) = talk.create(shown("b@64x64"))
    assert problem["error"]["code"] == "pictures_too_large"
    assert problem["error"]["param"] == "item.content[0].image_url"
    (problem,) = talk.respond({"input": [shown("b"), shown("c")]})
    assert problem["error"]["param"] == "response.input[1].content[0].image_url"
    talk.create(shown("b"))
    (problem,) = talk.create(shown("c"))
    assert problem["error"]["code"] == "too_many_pictures"
    assert "delete" in problem["error"]["message"]
    talk.create(shown("a"))
    talk.client("conversation.item.delete", item_id="item_1")
    talk.create(shown("c"))


def test_pictures_that_no_longer_fit_into_the_context_make_room() -> None:
    talk = Talk(limits=DialogueLimits(max_pictures=2))
    for name in "ab":
        talk.create(shown(name, "What?", id=name))
        talk.respond()
        talk.reply("That")
    (problem,) = talk.create(shown("c", "And?", id="c"))
    assert problem["error"]["code"] == "too_many_pictures"
    talk.say_text("And now?")
    talk.respond()
    talk.respond({"conversation": "none", "input": [{"type": "item_reference", "id": "a"}]})
    first, aside = talk.running
    talk.break_off("context_length_exceeded", answer=first)
    talk.reply("This")
    assert talk.dropped == []  # somebody still looks at it
    talk.begin(aside)
    talk.end(aside)
    assert talk.dropped == ["a"]
    talk.create(shown("c", "And?", id="c"))
    (item,) = talk.client("conversation.item.retrieve", item_id="a")
    assert [part["type"] for part in item["item"]["content"]] == ["input_image", "input_text"]
    reference = {"type": "item_reference", "id": "a"}
    (problem,) = talk.respond({"conversation": "none", "input": [reference]})
    assert problem["error"]["param"] == "response.input[0].id"
    assert "forgotten" in problem["error"]["message"]
    talk.client("conversation.item.delete", item_id="a")
    talk.respond()
    assert talk.prompt()[-1] == ("user", "<c>", "And?")


def test_a_model_that_only_reads() -> None:
    blind = VISION.__class__("fake/text", "qwen3", [], 1, 1, abilities=["chat"])
    talk = Talk(models=[*MODELS, blind])
    talk.create(shown("a", "What?", id="seen"))
    talk.update({"model": "fake/text"})
    (problem,) = talk.create(shown("b"), event_id="e")
    assert problem["error"]["code"] == "unsupported_image"
    assert problem["error"]["param"] == "item.content[0].image_url"
    (problem,) = talk.respond()
    assert problem["error"]["param"] == "seen.content[0].image_url"
    (problem,) = talk.respond({"input": [{"type": "item_reference", "id": "seen"}]})
    assert problem["error"]["param"] == "seen.content[0].image_url"
    talk.respond({"input": [said("Hi")]})
    assert talk.asked[-1].settings.model == "fake/text"


def test_another_model_gets_the_pictures_too() -> None:
    other = VISION.__class__("fake/eyes", "qwen3-vl", [], 1, 1, abilities=["chat", "image"])
    talk = Talk(models=[*MODELS, other])
    talk.create(shown("a", "What?", id="first"))
    talk.respond()
    talk.reply("A")
    talk.update({"model": "fake/eyes"})
    talk.respond()
    talk.reply("A")
    assert list(talk.held) == [("fake/eyes", "a")]  # the other engine may be started anew
    talk.client("conversation.item.delete", item_id="first")
    assert talk.held == {}


# --- audio in items ------------------------------------------------------------------------------


def spoken(**fields: Any) -> dict[str, Any]:
    content = [image("a"), {"type": "input_audio", "audio": AUDIO}]
    return {"type": "message", "role": "user", "content": content, **fields}


def test_audio_of_an_item_is_transcribed_and_the_response_waits() -> None:
    talk = Talk()
    added, _ = talk.create(spoken(id="q"))
    assert added["item"]["content"][1] == {"type": "input_audio", "transcript": None}
    assert talk.ended == ["turn_1"]
    assert len(talk.samples("turn_1")) == 8000
    assert talk.voiced["turn_1"] == 4000  # as far as somebody speaks
    talk.respond()
    assert talk.asked == []
    (delta,) = talk.say("turn_1", "How many?")
    assert (delta["item_id"], delta["content_index"]) == ("q", 1)
    completed = talk.complete("turn_1")[0]
    assert (completed["item_id"], completed["content_index"]) == ("q", 1)
    assert talk.prompt() == [("user", "<a>", "How many?")]
    talk.reply("Two")
    (found,) = talk.client("conversation.item.retrieve", item_id="q")
    assert found["item"]["content"][1]["transcript"] == "How many?"


def test_speech_that_cannot_be_transcribed_fails_who_waits_for_it() -> None:
    talk = Talk()
    talk.create(spoken(id="q"))
    talk.respond()
    failed, done = talk.fail("turn_1")
    assert failed["type"].endswith(".failed")
    assert done["response"]["status_details"]["error"]["code"] == "transcription_failed"
    talk.say_text("Then this")
    talk.respond()
    assert talk.prompt() == [("user", "<a>", "Then this")]


def test_a_deleted_question_is_not_waited_for() -> None:
    talk = Talk()
    talk.say_text("Hi")
    talk.create(spoken(id="q"))
    talk.respond()
    talk.client("conversation.item.delete", item_id="q")
    assert talk.prompt() == [("user", "Hi")]
    assert talk.held == {}
    talk.say("turn_1", "late")
    talk.complete("turn_1")


def test_a_deleted_item_that_is_referred_to_twice_is_not_waited_for() -> None:
    talk = Talk()
    talk.create(spoken(id="q"))
    twice = [{"type": "item_reference", "id": "q"}] * 2
    talk.respond({"input": [said("Hi"), *twice]})
    talk.client("conversation.item.delete", item_id="q")
    assert talk.prompt() == [("user", "Hi")]
    assert talk.held == {}


def test_what_a_commit_pushes_out_is_still_answered_by_who_waits_for_it() -> None:
    talk = Talk(max_items=2)
    talk.update({"audio": {"input": {"turn_detection": None}}})
    talk.create(spoken(id="q"))
    talk.say_text("And this?")
    talk.respond()
    talk.hear(1.0)
    talk.client("input_audio_buffer.commit")
    assert talk.client("conversation.item.retrieve", item_id="q")[0]["type"] == "error"
    talk.say("turn_1", "What is this?")
    talk.complete("turn_1")
    assert talk.prompt() == [("user", "<a>", "What is this?", "\n", "And this?")]
    talk.reply("A square")


def test_recordings_that_wait_for_the_open_turn_are_bounded() -> None:
    talk = Talk()
    talk.update({"audio": {"input": {"turn_detection": None}}})
    talk.create(spoken())
    talk.hear(1.0)
    assert talk.protocol.pending_turns == 1, "it is heard before the open turn"
    talk.complete("turn_1")
    for _ in range(MAX_HELD_UP):
        talk.create(spoken())
    assert talk.protocol.pending_turns == 0, "what waits for the client is not waited for"
    (problem,) = talk.create(spoken())
    assert (problem["error"]["code"], problem["error"]["param"]) == ("too_many_recordings", "item")
    talk.say_text("no recording")
    talk.client("input_audio_buffer.commit")
    assert talk.protocol.pending_turns == MAX_HELD_UP + 1
    talk.create(spoken())


def test_a_transcript_alone_is_taken_as_what_was_said() -> None:
    talk = Talk()
    talk.create(told("Good day"))
    talk.respond()
    assert talk.prompt() == [("user", "Good day")]


def test_nobody_hears() -> None:
    talk = Talk(models=[VISION])
    (problem,) = talk.create(spoken())
    assert problem["error"]["code"] == "unsupported_audio"
    assert problem["error"]["param"] == "item.content[1].audio"
    assert not talk.protocol.can_hear
    assert talk._take(talk.protocol.refuse_audio("e"))[0]["error"]["code"] == "unsupported_audio"
    assert talk._take(talk.protocol.refuse_audio("e")) == []
    (problem,) = talk.client("input_audio_buffer.commit")
    assert problem["error"]["code"] == "input_audio_buffer_commit_empty"
    talk.say_text("Hi")
    talk.respond()
    talk.reply("A")


def test_a_response_takes_no_new_audio() -> None:
    (problem,) = Talk().respond({"input": [spoken()]})
    assert problem["error"]["param"] == "response.input[0].content[1].audio"


def test_transcription_sessions_load_nothing() -> None:
    script = Script()
    (problem,) = script.client("conversation.item.create", item=shown("a"))
    assert problem["error"]["code"] == "unsupported_event"
