"""Responses of a realtime session: order of events, overrides, ends of every kind."""

from __future__ import annotations

from typing import Any

import pytest

from lookhear.engine.messages import EngineFailed
from lookhear.gateway.realtime.openai.parsing import parse_client_event
from lookhear.gateway.realtime.protocol.commands import Append
from lookhear.gateway.realtime.protocol.outputs import Send
from tests.gateway.conversing import Talk, said, shown
from tests.gateway.fake_chat import VISION
from tests.gateway.scripted import Script

OPENED = [
    "response.output_item.added",
    "conversation.item.added",
    "response.content_part.added",
]
CLOSED = [
    "response.output_text.done",
    "response.content_part.done",
    "conversation.item.done",
    "response.output_item.done",
    "response.done",
]


def types(frames: list[dict[str, Any]]) -> list[str]:
    return [frame["type"] for frame in frames]


def asked(text: str = "Hi", **options: Any) -> Talk:
    talk = Talk(**options)
    talk.say_text(text)
    talk.respond()
    return talk


def test_the_whole_configuration_is_told() -> None:
    session = Talk().frames[0]["session"]
    assert session["model"] == "fake/vision"
    assert session["output_modalities"] == ["text"]
    assert session["max_output_tokens"] == "inf"
    assert session["instructions"] == ""
    assert session["audio"]["input"]["transcription"] == {"model": "fake/whisper"}
    assert session["audio"]["input"]["turn_detection"]["create_response"] is True


def test_the_events_of_an_answer_in_order() -> None:
    talk = Talk()
    added, done = talk.say_text("Hi")
    assert types([added, done]) == ["conversation.item.added", "conversation.item.done"]
    assert types(talk.respond()) == ["response.created"]
    assert talk.last[0]["response"]["status"] == "in_progress"
    assert talk.last[0]["response"]["output"] == []
    frames = talk.reply("Hel", "lo")
    deltas = ["response.output_text.delta"] * 2
    assert types(frames) == [*OPENED, *deltas, *CLOSED]
    item_id = frames[0]["item"]["id"]
    assert frames[0]["item"] == {
        "id": item_id,
        "object": "realtime.item",
        "type": "message",
        "status": "in_progress",
        "role": "assistant",
        "content": [],
    }
    assert frames[1]["previous_item_id"] == "item_1"
    assert [f["delta"] for f in frames[3:5]] == ["Hel", "lo"]
    assert frames[5]["text"] == frames[6]["part"]["text"] == "Hello"
    response = frames[-1]["response"]
    assert response["status"] == response["status_details"]["type"] == "completed"
    assert response["output"] == [frames[-2]["item"]]
    assert response["output"][0]["content"] == [{"type": "output_text", "text": "Hello"}]
    assert response["output"][0]["status"] == "completed"
    assert {f["response_id"] for f in frames if "response_id" in f} == {response["id"]}
    talk.say_text("And?")
    talk.respond()
    assert talk.prompt() == [("user", "Hi"), ("assistant", "Hello"), ("user", "And?")]


def test_usage() -> None:
    talk = asked()
    talk.begin()
    talk.end(prompt=100, cached=64, image=20, video=30, output=7)
    assert talk.done[0]["usage"] == {
        "total_tokens": 107,
        "input_tokens": 100,
        "output_tokens": 7,
        "input_token_details": {
            "text_tokens": 50,
            "audio_tokens": 0,
            "image_tokens": 50,
            "cached_tokens": 64,
        },
        "output_token_details": {"text_tokens": 7, "audio_tokens": 0},
    }


def test_settings_and_what_one_response_changes_of_them() -> None:
    talk = Talk()
    talk.update(
        {
            "instructions": "Be brief.",
            "max_output_tokens": 50,
            "lookhear": {"temperature": 0.5, "top_k": 5, "seed": 7, "stop": ["."]},
        }
    )
    assert talk.last[0]["session"]["lookhear"]["temperature"] == 0.5
    talk.say_text("Hi")
    talk.respond()
    first = talk.asked[-1]
    assert talk.prompt() == [("system", "Be brief."), ("user", "Hi")]
    assert first.settings.model == "fake/vision"
    assert (first.settings.max_tokens, first.settings.temperature) == (50, 0.5)
    assert (first.settings.top_k, first.settings.seed, first.settings.stop) == (5, 7, ["."])
    talk.reply("A")
    talk.respond(
        {
            "instructions": "Be long.",
            "max_output_tokens": "inf",
            "output_modalities": ["text"],
            "metadata": {"client_event_id": "7"},
            "lookhear": {"top_k": None, "chat_template_kwargs": {"enable_thinking": False}},
        }
    )
    assert talk.last[0]["response"]["metadata"] == {"client_event_id": "7"}
    second = talk.asked[-1].settings
    assert talk.prompt()[0] == ("system", "Be long.")
    assert (second.max_tokens, second.temperature, second.top_k) == (None, 0.5, None)
    assert second.template == {"enable_thinking": False}
    talk.reply("B")
    assert talk.done[-1]["metadata"] == {"client_event_id": "7"}
    talk.respond()
    assert talk.asked[-1].settings == first.settings
    assert talk.prompt()[0] == ("system", "Be brief.")


def test_what_is_null_for_one_response_is_as_in_the_session() -> None:
    """Which is how SDKs write what is not set."""
    talk = Talk()
    tool = {"type": "function", "name": "f"}
    talk.update({"instructions": "Be brief.", "max_output_tokens": 50, "tools": [tool]})
    talk.say_text("Hi")
    names = (
        *("instructions", "max_output_tokens", "tools", "tool_choice", "parallel_tool_calls"),
        *("output_modalities", "conversation", "input", "metadata", "prompt", "lookhear"),
    )
    talk.respond(dict.fromkeys(names))
    assert talk.prompt() == [("system", "Be brief."), ("user", "Hi")]
    settings = talk.asked[-1].settings
    assert settings.max_tokens == 50 and [tool.name for tool in settings.tools] == ["f"]
    talk.reply("A")
    talk.respond({"instructions": "", "max_output_tokens": "inf", "tools": []})
    assert talk.prompt()[0] == ("user", "Hi")
    assert (talk.asked[-1].settings.max_tokens, talk.asked[-1].settings.tools) == (None, [])


def test_variables_of_the_template_are_finite_numbers() -> None:
    """1e999 is JSON, and would be told again as Infinity, which is none."""
    lookhear = '{"chat_template_kwargs": {"x": 1e999}}'
    session = f'{{"type": "realtime", "lookhear": {lookhear}}}'
    command = parse_client_event(f'{{"type": "session.update", "session": {session}}}')
    assert not isinstance(command, Append)
    (output,) = Talk().protocol.receive(command, now=0.0)
    assert isinstance(output, Send) and output.event["type"] == "error"
    assert output.event["error"]["param"] == "session.lookhear.chat_template_kwargs"
    assert "not finite" in output.event["error"]["message"]


def test_the_length_limit_is_a_cap_and_reserves_nothing() -> None:
    talk = Talk()
    talk.update({"max_output_tokens": 4096})
    talk.say_text("Hi")
    talk.respond()
    assert (talk.asked[-1].settings.max_tokens, talk.asked[-1].settings.may_shrink) == (4096, True)


def test_the_length_limit_leaves_it_incomplete() -> None:
    talk = asked()
    talk.begin()
    talk.speak("One")
    frames = talk.end(reason="length")
    assert types(frames) == CLOSED
    assert talk.done[0]["status"] == "incomplete"
    assert talk.done[0]["status_details"] == {"type": "incomplete", "reason": "max_output_tokens"}
    assert talk.done[0]["output"][0]["status"] == "incomplete"


def test_cancelling_keeps_what_was_said() -> None:
    talk = asked()
    talk.begin()
    talk.speak("One")
    frames = talk.client("response.cancel")
    assert types(frames) == CLOSED
    assert talk.running == {}
    assert talk.done[0]["status"] == "cancelled"
    assert talk.done[0]["status_details"]["reason"] == "client_cancelled"
    assert talk.done[0]["usage"]["output_tokens"] == 1
    assert talk.speak("late", "resp_1") == []  # was on its way
    talk.say_text("Go on")
    talk.respond()
    assert talk.prompt() == [("user", "Hi"), ("assistant", "One"), ("user", "Go on")]


def test_cancelling_before_the_first_token_opens_nothing() -> None:
    talk = asked()
    assert types(talk.client("response.cancel", response_id="resp_1")) == ["response.done"]
    assert talk.done[0]["output"] == []
    (problem,) = talk.client("response.cancel", event_id="e")
    assert problem["error"]["code"] == "response_cancel_not_active"
    assert problem["error"]["message"].startswith("Cancellation failed")
    assert problem["error"]["event_id"] == "e"
    (problem,) = talk.client("response.cancel", response_id="resp_9")
    assert problem["error"]["param"] == "response_id"


def test_failures_close_what_is_open() -> None:
    talk = asked()
    assert types(talk.break_off("invalid_image")) == ["response.done"]
    talk.respond()
    talk.begin()
    assert types(talk.break_off()) == CLOSED
    first, second = talk.done
    assert first["status_details"] == {
        "type": "failed",
        "error": {
            "type": "invalid_request_error",
            "code": "invalid_image",
            "message": "asked to fail",
        },
    }
    assert second["status_details"]["error"]["type"] == "server_error"


def test_a_part_that_the_engine_blames_is_named() -> None:
    talk = Talk()
    talk.create(shown("a", "What?", id="mine"))
    talk.respond()
    talk.break_off("context_length_exceeded", message=0, part=0)
    message = talk.done[0]["status_details"]["error"]["message"]
    assert message == "mine.content[0].image_url: asked to fail"


def test_one_at_a_time_in_the_conversation() -> None:
    talk = asked()
    (problem,) = talk.respond(event_id="e")
    assert problem["error"]["code"] == "conversation_already_has_active_response"
    assert problem["error"]["event_id"] == "e"
    talk.reply("A")
    assert types(talk.respond()) == ["response.created"]


def test_out_of_band_beside_the_conversation() -> None:
    talk = asked("Hi")
    talk.begin()
    frames = talk.respond(
        {
            "conversation": "none",
            "instructions": "Classify.",
            "input": [
                {"type": "item_reference", "id": "item_1"},
                said("Which language?"),
                shown("b"),
            ],
            "metadata": {"topic": "language"},
        }
    )
    assert "conversation_id" not in frames[0]["response"]
    assert talk.prompt() == [
        ("system", "Classify."),
        ("user", "Hi", "\n", "Which language?", "<b>"),
    ]
    frames = talk.reply("English")
    assert not any(f["type"].startswith("conversation.") for f in frames)
    assert frames[-1]["response"]["metadata"] == {"topic": "language"}
    assert talk.dropped == ["b"]
    frames = talk.speak("Hello", "resp_1") + talk.end("resp_1")
    assert types(frames)[1:] == CLOSED
    talk.respond()
    assert talk.prompt() == [("user", "Hi"), ("assistant", "Hello")]


def test_a_context_of_its_own_that_joins_the_conversation() -> None:
    talk = asked("Hi")
    talk.reply("A")
    talk.respond({"input": []})
    assert talk.done[-1]["status_details"]["error"]["code"] == "nothing_to_answer"
    talk.respond({"input": [said("Just this")]})
    assert talk.prompt() == [("user", "Just this")]
    frames = talk.reply("B")
    assert frames[1]["type"] == "conversation.item.added"
    talk.respond()
    assert talk.prompt()[-1] == ("assistant", "B")


def test_what_comes_during_an_answer_is_behind_it() -> None:
    talk = asked("one")
    talk.say_text("two")
    frames = talk.reply("A")
    assert frames[1]["previous_item_id"] == "item_1"
    talk.respond()
    assert talk.prompt() == [("user", "one"), ("assistant", "A"), ("user", "two")]


def test_thinking_is_told_only_on_request() -> None:
    talk = asked()
    talk.begin()
    assert talk.speak("hmm", is_reasoning=True) == []
    talk.end()
    talk.update({"lookhear": {"reasoning": True}})
    talk.respond()
    talk.begin()
    (thought,) = talk.speak("hmm", is_reasoning=True)
    assert thought["type"] == "lookhear.response.reasoning.delta"
    assert thought["delta"] == "hmm"
    talk.speak("Yes")
    talk.end()
    assert talk.done[-1]["output"][0]["content"][0]["text"] == "Yes"


def test_a_dead_engine_ends_responses_first() -> None:
    talk = asked()
    talk.begin()
    frames = talk.engine(EngineFailed("engine_died", "it ended unexpectedly"))
    assert types(frames) == [*CLOSED, "error"]
    assert talk.done[0]["status"] == "failed"
    assert [close.code for close in talk.closes] == [1012]


def test_a_conversation_that_is_too_long_loses_its_older_half() -> None:
    talk = Talk()
    for number in range(4):
        talk.say_text(f"q{number}")
        talk.respond()
        talk.reply(f"a{number}")
    talk.say_text("q4")
    talk.respond()
    assert talk.break_off("context_length_exceeded") == []  # asked again at once
    rest = [("user", "q2"), ("assistant", "a2"), ("user", "q3"), ("assistant", "a3")]
    assert talk.prompt() == [*rest, ("user", "q4")]
    talk.reply("a4")
    talk.say_text("q5")
    talk.respond()
    assert talk.prompt() == [*rest, ("user", "q4"), ("assistant", "a4"), ("user", "q5")]


def test_what_is_too_long_by_itself_costs_no_memory() -> None:
    talk = Talk()
    for number in range(3):
        talk.say_text(f"q{number}")
        talk.respond()
        talk.reply(f"a{number}")
    talk.create(shown("a", "What?", id="big"))
    talk.respond()
    while talk.running:
        messages = talk.asked[-1].messages
        talk.break_off("context_length_exceeded", message=len(messages) - 1, part=0)
    error = talk.done[-1]["status_details"]["error"]
    assert error["message"] == "big.content[0].image_url: asked to fail"
    assert talk.prompt() == [("user", "<a>", "What?")]
    talk.client("conversation.item.delete", item_id="big")
    talk.respond()
    assert talk.prompt()[0] == ("user", "q0")


def test_of_what_was_never_answered_the_older_half_goes() -> None:
    """As of somebody who has been listened to for an hour, and asks."""
    talk = Talk()
    talk.create(said("Be brief", "system"))
    for number in range(5):
        talk.say_text(f"s{number}")
    talk.respond()
    assert talk.break_off("context_length_exceeded") == []
    system = ("system", "Be brief")
    assert talk.prompt() == [system, ("user", "s2", "\n", "s3", "\n", "s4")]
    talk.break_off("context_length_exceeded")
    assert talk.prompt() == [system, ("user", "s3", "\n", "s4")]
    talk.reply("A")
    assert talk.done[-1]["status"] == "completed"


def test_a_picture_that_was_never_asked_about_is_not_left_out() -> None:
    talk = Talk()
    talk.say_text("Look")
    talk.create(shown("a"))
    talk.say_text("What is it?")
    talk.respond()
    talk.break_off("context_length_exceeded")
    assert talk.prompt() == [("user", "<a>", "What is it?")]
    talk.break_off("context_length_exceeded")
    assert talk.done[-1]["status"] == "failed"


def test_a_question_that_is_too_long_fails_no_later_one() -> None:
    """And it is forgotten before what was said."""
    talk = asked("q0")
    talk.reply("a0")
    talk.create(shown("a", "What? " * 9, id="big"))
    talk.respond()
    while talk.running:
        talk.break_off("context_length_exceeded")
    talk.say_text("And now?")
    talk.respond()
    assert talk.break_off("context_length_exceeded") == []
    assert talk.prompt() == [("user", "q0"), ("assistant", "a0"), ("user", "And now?")]
    talk.reply("A")
    talk.respond()
    assert talk.prompt()[-1] == ("assistant", "A")
    assert len(talk.prompt()) == 4


def test_a_picture_in_front_of_a_question_that_is_too_long_is_left_out_last() -> None:
    talk = Talk()
    talk.create(shown("a", id="seen"))
    talk.say_text("too long")
    talk.respond()
    talk.break_off("context_length_exceeded")
    talk.say_text("And now?")
    talk.respond()
    talk.break_off("context_length_exceeded")
    assert talk.prompt() == [("user", "<a>", "And now?")]
    talk.break_off("context_length_exceeded")
    assert talk.prompt() == [("user", "And now?")]


def test_what_was_asked_in_vain_is_kept_while_nothing_else_is_asked() -> None:
    talk = asked("too long")
    for _ in range(2):
        talk.break_off("context_length_exceeded")
        assert talk.done[-1]["status"] == "failed"
        talk.respond()
    assert talk.prompt() == [("user", "too long")]


def test_what_is_too_long_out_of_band_shortens_no_conversation() -> None:
    talk = Talk()
    talk.update({"lookhear": {"camera": {"min_change": 0}}})
    for name in ("a", "b"):
        talk.create(shown(name, "What?", id=f"of {name}"))
        talk.respond()
        talk.reply(name)
        talk.frame(name, 0)
    talk.say_text("And now?")
    talk.respond({"conversation": "none"})
    whole = talk.prompt()
    talk.break_off("context_length_exceeded")
    assert talk.prompt() != whole
    talk.reply("A square")
    talk.respond({"conversation": "none", "input": [{"type": "item_reference", "id": "of a"}]})
    assert talk.prompt() == [("user", "<a>", "What?")]
    talk.reply("A square")
    talk.respond({"conversation": "none"})
    while talk.running:
        talk.break_off("context_length_exceeded")
    assert talk.done[-1]["status"] == "failed"
    talk.respond()
    assert talk.prompt() == whole
    talk.break_off("context_length_exceeded")
    assert talk.prompt()[-1][-1] == "And now?" and len(talk.prompt()) > 1


@pytest.mark.parametrize(("ratio", "left"), [(0.8, 8), (0.5, 5), (1, 9), (0, 0), (0.99, 9)])
def test_so_much_is_retained_as_the_client_wants(ratio: float, left: int) -> None:
    talk = Talk()
    wanted = {"type": "retention_ratio", "retention_ratio": ratio}
    (updated,) = talk.update({"truncation": wanted})
    assert updated["session"]["truncation"] == wanted
    for number in range(5):
        talk.say_text(f"q{number}")
        talk.respond()
        talk.reply(f"a{number}")
    talk.say_text("now")
    talk.respond()
    talk.break_off("context_length_exceeded")
    assert len(talk.prompt()) == left + 1
    while talk.running:  # and then by halves: nobody waits for as many tries as there are items
        talk.break_off("context_length_exceeded")
    assert len(talk.asked) <= 5 + 6


@pytest.mark.parametrize(
    "wrong",
    [
        "retention_ratio", {}, {"type": "retention_ratio"}, {"type": "x", "retention_ratio": 0.5},
        *({"type": "retention_ratio", "retention_ratio": r} for r in (1.01, -0.1, "0.5", True)),
    ],
)  # fmt: skip
def test_what_is_no_truncation_is_refused(wrong: Any) -> None:
    (frame,) = Talk().update({"truncation": wrong})
    assert frame["error"]["param"] == "session.truncation"
    assert '{"type": "retention_ratio", "retention_ratio": a number' in frame["error"]["message"]


def test_limits_of_tokens_are_named_as_ignored() -> None:
    ratio = {"type": "retention_ratio", "retention_ratio": 0.8}
    talk = Talk()
    (frame,) = talk.update({"truncation": {**ratio, "token_limits": {"post_instructions": 9}}})
    assert frame["session"]["lookhear"]["ignored"] == ["truncation.token_limits"]
    (frame,) = talk.update({"truncation": ratio})
    assert "ignored" not in frame["session"].get("lookhear", {})
    (frame,) = talk.update({"truncation": None})
    assert frame["session"]["truncation"] == "auto"


def test_without_truncation_too_long_is_a_failure() -> None:
    talk = asked("one")
    talk.reply("A")
    talk.update({"truncation": "disabled"})
    talk.say_text("two")
    talk.respond()
    assert types(talk.break_off("context_length_exceeded")) == ["response.done"]
    talk.update({"truncation": "auto"})
    talk.respond()
    while talk.running:
        talk.break_off("context_length_exceeded")
    assert talk.done[-1]["status"] == "failed"  # nothing was left to leave out


@pytest.mark.parametrize(
    ("response", "param"),
    [
        ({"output_modalities": ["video"]}, "response.output_modalities"),
        ({"output_modalities": []}, "response.output_modalities"),
        ({"max_output_tokens": 0}, "response.max_output_tokens"),
        ({"max_output_tokens": "many"}, "response.max_output_tokens"),
        ({"tools": [{"type": "mcp", "server_label": "f"}]}, "response.tools[0].type"),
        ({"tools": [{"type": "mcp", "name": "f"}]}, "response.tools[0].type"),
        ({"tools": [{"type": "function", "name": "f"}] * 2}, "response.tools"),
        ({"tool_choice": {"type": "function", "name": "f"}}, "response.tool_choice"),
        ({"tool_choice": "any"}, "response.tool_choice"),
        ({"tool_choice": "required"}, "response.tool_choice"),
        ({"prompt": {"id": "pmpt_1"}}, "response.prompt"),
        ({"conversation": "other"}, "response.conversation"),
        ({"metadata": {"a": 1}}, "response.metadata.a"),
        ({"lookhear": {"top_p": 2.0}}, "response.lookhear.top_p"),
        ({"input": {}}, "response.input"),
        ({"input": [{"type": "item_reference", "id": "x"}]}, "response.input[0].id"),
        ({"input": [{"type": "function_call"}]}, "response.input[0].name"),
        (
            {"input": [{"type": "function_call_output", "call_id": "x", "output": "y"}]},
            "response.input[0].call_id",
        ),
        (
            {"input": [said("a"), {"type": "message", "role": "user", "content": [{}]}]},
            "response.input[1].content[0].type",
        ),
        ({"input": [shown("broken")]}, "response.input[0].content[0].image_url"),
    ],
)
def test_what_a_response_cannot_be(response: dict[str, Any], param: str) -> None:
    talk = Talk()
    talk.say_text("Hi")
    (problem,) = talk.respond(response, event_id="e")
    assert problem["type"] == "error", problem
    assert problem["error"]["param"] == param
    assert problem["error"]["message"].startswith(f"{param}: expected")
    assert types(talk.respond({"tools": [], "tool_choice": "auto"})) == ["response.created"]


def test_too_many_at_once() -> None:
    talk = Talk()
    talk.say_text("Hi")
    for _ in range(16):
        talk.respond({"conversation": "none"})
    assert len(talk.running) == 16
    (problem,) = talk.respond({"conversation": "none"})
    assert problem["error"]["code"] == "too_many_responses"


def test_session_types() -> None:
    listening = Script(requested_model=VISION.id, models=[VISION])
    assert listening.frames[0]["session"]["type"] == "realtime"
    assert "transcription" not in listening.frames[0]["session"]["audio"]["input"]
    (problem,) = listening.update()
    assert problem["error"]["code"] == "unsupported_session_type"
    talk = Talk(requested_model=None)
    assert talk.frames[0]["session"]["type"] == "transcription"
    (updated,) = talk.update({"model": "fake/vision"})
    assert updated["session"]["type"] == "realtime"
    talk.say_text("Hi")
    talk.respond()
    (problem,) = Script.update(talk)
    assert problem["error"]["param"] == "session.type"
    talk.reply("A")
    assert Script.update(talk)[0]["session"]["type"] == "transcription"
    (problem,) = talk.update({"model": "fake/whisper"})
    assert problem["error"]["code"] == "model_not_found"
    assert "fake/vision" in problem["error"]["message"]
    asked_to_listen = Talk(transcribes=True)
    assert asked_to_listen.frames[0]["session"]["type"] == "transcription"
    assert asked_to_listen.frames[1]["error"]["code"] == "model_not_found"


def test_who_asks_for_audio_is_told_and_given_text() -> None:
    """The agents SDKs ask for nothing else, and can show text."""
    talk = Talk()
    talk.say_text("Hi")
    (updated,) = talk.update({"output_modalities": ["audio"]})
    assert updated["session"]["output_modalities"] == ["text"]
    created, *_ = talk.respond({"output_modalities": ["text", "audio"]})
    assert created["response"]["output_modalities"] == ["text"]
