"""Tools on the socket: calls as items of a response, what came of them, and the session after."""

from __future__ import annotations

from typing import Any

import pytest

from lookhear.engine.messages import AnswerFailed
from tests.gateway.conversing import Talk, said
from tests.gateway.scripted import SESSION

TOOL = {
    "type": "function",
    "name": "weather",
    "description": "of a city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
}
CALLED = [
    "response.output_item.added",
    "conversation.item.added",
    "response.function_call_arguments.delta",
]
ANSWERED = [
    "response.function_call_arguments.done",
    "conversation.item.done",
    "response.output_item.done",
]


def types(frames: list[dict[str, Any]]) -> list[str]:
    return [frame["type"] for frame in frames]


def asked(**session: Any) -> Talk:
    talk = Talk()
    talk.update({"tools": [TOOL], **session})
    talk.say_text("Is it raining in Rome?")
    talk.respond()
    return talk


def output(call_id: str, text: str = "rain", **fields: Any) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call_id, "output": text, **fields}


def test_tools_are_told_and_reach_the_engine() -> None:
    talk = asked(tool_choice={"type": "function", "name": "weather"}, parallel_tool_calls=False)
    session = [f for f in talk.frames if f["type"] == "session.updated"][-1]["session"]
    assert session["tools"] == [TOOL] and session["parallel_tool_calls"] is False
    assert session["tool_choice"] == {"type": "function", "name": "weather"}
    settings = talk.asked[-1].settings
    assert [tool.name for tool in settings.tools] == ["weather"]
    assert (settings.must_call, settings.may_call, settings.parallel_calls) == (
        True, ["weather"], False,
    )  # fmt: skip
    talk.reply()
    talk.respond({"parallel_tool_calls": True})  # one that is forced is called once
    assert not talk.asked[-1].settings.parallel_calls
    talk.reply()
    talk.respond({"tool_choice": "none"})
    assert talk.asked[-1].settings.tools == [] and not talk.asked[-1].settings.must_call
    talk.reply("no")
    talk.respond({"tools": [], "tool_choice": "auto"})
    assert talk.asked[-1].settings.tools == []


@pytest.mark.parametrize("choice", ["required", {"type": "function", "name": "weather"}])
def test_what_must_be_called_may_be_said_before_what_there_is(choice: Any) -> None:
    """As LiveKit's agents do. Until then nothing is forced."""
    talk = Talk()
    talk.update({"instructions": "Be brief.", "tool_choice": choice})
    assert talk.frames[-1]["type"] == "session.updated"
    assert talk.frames[-1]["session"]["tool_choice"] == choice
    talk.say_text("Is it raining in Rome?")
    talk.respond()
    assert not talk.asked[-1].settings.must_call and talk.asked[-1].settings.tools == []
    talk.reply("Who knows.")
    talk.update({"tools": [TOOL]})
    talk.respond()
    assert talk.asked[-1].settings.must_call
    talk.reply()
    talk.respond({"tools": []})
    assert not talk.asked[-1].settings.must_call


def test_a_tool_that_is_not_among_those_told_cannot_be_chosen() -> None:
    talk = Talk()
    talk.update({"tool_choice": {"type": "function", "name": "news"}})
    talk.update({"tools": [TOOL]})
    assert talk.frames[-1]["error"]["param"] == "session.tool_choice"
    talk.update({"tools": [TOOL], "tool_choice": "auto"})
    assert talk.frames[-1]["type"] == "session.updated"


def test_the_events_of_a_call_in_order_and_the_answer_to_it() -> None:
    talk = asked()
    assert talk.begin() == []  # nothing is said so far
    frames = talk.call(0, "weather", '{"city":', '"Rome"}')
    assert types(frames) == [*CALLED, CALLED[-1]]
    item = frames[0]["item"]
    assert item["type"] == "function_call" and item["status"] == "in_progress"
    assert (item["name"], item["arguments"]) == ("weather", "")
    frames = talk.end(reason="tool_calls")
    assert types(frames) == [*ANSWERED, "response.done"]
    assert frames[0]["arguments"] == '{"city":"Rome"}' and frames[0]["name"] == "weather"
    assert frames[0]["call_id"] == item["call_id"] and frames[0]["item_id"] == item["id"]
    assert talk.done[-1]["status"] == "completed"
    (call,) = talk.done[-1]["output"]
    assert call["status"] == "completed" and call["arguments"] == '{"city":"Rome"}'
    added, _ = talk.create(output(call["call_id"]))
    assert added["previous_item_id"] == call["id"]
    assert added["item"]["output"] == "rain"
    talk.respond()
    _, spoken, back = talk.asked[-1].messages
    assert [(c.id, c.name, c.arguments) for c in spoken.calls] == [
        (call["call_id"], "weather", '{"city":"Rome"}')
    ]
    assert (back.role, back.call) == ("tool", call["call_id"])
    assert types(talk.reply("It is."))[0] == "response.output_item.added"


def test_words_and_two_calls_are_three_items_in_order() -> None:
    talk = asked()
    talk.begin()
    before = len(talk.frames)
    talk.speak("Let me see.")
    talk.call(0, "weather", "{}")
    talk.call(1, "weather", '{"city":"Oslo"}')
    talk.end(reason="tool_calls")
    added = [f for f in talk.frames[before:] if f["type"] == "response.output_item.added"]
    done = [f for f in talk.frames[before:] if f["type"] == "response.output_item.done"]
    assert [f["output_index"] for f in added] == [f["output_index"] for f in done] == [0, 1, 2]
    kinds = [item["type"] for item in talk.done[-1]["output"]]
    assert kinds == ["message", "function_call", "function_call"]
    first, *calls = [f["item"]["id"] for f in added]
    before_them = [
        f["previous_item_id"]
        for f in talk.frames[before:]
        if f["type"] == "conversation.item.added"
    ]
    assert before_them[1:] == [first, calls[0]]
    for index, call in enumerate(talk.done[-1]["output"][1:]):
        talk.create(output(call["call_id"], str(index)))
    talk.respond()
    messages = talk.asked[-1].messages
    assert [m.role for m in messages] == ["user", "assistant", "tool", "tool"]
    assert len(messages[1].calls) == 2 and messages[1].parts


@pytest.mark.parametrize("how", ["cancelled", "cut off", "failed"])
def test_a_call_that_breaks_off_is_incomplete_and_no_client_is_told_to_call(how: str) -> None:
    talk = asked()
    talk.begin()
    talk.call(0, "weather", '{"ci')
    before = len(talk.frames)
    if how == "cancelled":
        talk.client("response.cancel")
        talk.running.clear()
    elif how == "cut off":
        talk.end(reason="length")
    else:
        talk.break_off()
    frames = talk.frames[before:]
    assert types(frames) == [*ANSWERED[1:], "response.done"]
    (call,) = talk.done[-1]["output"]
    assert (call["status"], call["arguments"]) == ("incomplete", '{"ci')
    talk.respond()  # goes on as if it had not been made
    assert [m.role for m in talk.asked[-1].messages] == ["user"]


def test_a_client_that_never_answers_a_call_can_go_on() -> None:
    talk = asked()
    talk.begin()
    talk.call(0, "weather", "{}")
    talk.end(reason="tool_calls")
    talk.say_text("Never mind.")
    talk.respond()
    assert [m.role for m in talk.asked[-1].messages] == ["user", "assistant", "user"]
    assert types(talk.reply("Fine."))[-1] == "response.done"
    assert talk.done[-1]["status"] == "completed"


def test_the_output_of_a_call_that_is_gone_reaches_no_model() -> None:
    talk = asked()
    talk.begin()
    talk.call(0, "weather", "{}")
    talk.end(reason="tool_calls")
    (call,) = talk.done[-1]["output"]
    talk.create(output(call["call_id"]))
    talk.client("conversation.item.delete", item_id=call["id"])
    talk.respond()
    assert [m.role for m in talk.asked[-1].messages] == ["user"]


def test_no_output_is_taken_without_its_call_in_front_of_it() -> None:
    talk = asked()
    talk.begin()
    talk.call(0, "weather", "{}")
    talk.end(reason="tool_calls")
    (call,) = talk.done[-1]["output"]
    made, back = ({"type": "item_reference", "id": id} for id in (call["id"], "back"))
    (problem,) = talk.create(output(call["call_id"]), previous_item_id="item_1")
    assert problem["error"]["code"] == "invalid_call_id"
    talk.create(output(call["call_id"], id="back"), previous_item_id=call["id"])
    for context, param in (
        ([output(call["call_id"])], "response.input[0].call_id"),
        ([output(call["call_id"]), made], "response.input[0].call_id"),
        ([said("Now?"), back], "response.input[1].id"),
    ):
        (problem,) = talk.respond({"input": context})
        assert problem["error"]["code"] == "invalid_call_id"
        assert problem["error"]["param"] == param
    for context in ([made, output(call["call_id"])], [made, back]):
        talk.respond({"input": context})
        assert [m.role for m in talk.asked[-1].messages] == ["assistant", "tool"]
        talk.reply("Yes.")


def test_what_the_camera_shows_during_a_call_is_behind_it() -> None:
    talk = asked(lookhear={"camera": {"min_change": 0}})
    talk.begin()
    talk.frame("a", 0)
    talk.call(0, "weather", "{}")
    talk.frame("b", 1000)
    talk.end(reason="tool_calls")
    talk.create(output(talk.done[-1]["output"][0]["call_id"]))
    talk.respond()
    assert talk.prompt() == [
        ("user", "Is it raining in Rome?"),
        ("assistant",),
        ("tool", "rain"),
        ("user", "<<a b>>"),
    ]


def test_a_conversation_with_calls_is_made_again_by_a_client() -> None:
    talk = Talk()
    talk.say_text("Is it raining?")
    made = {"type": "function_call", "call_id": "c", "name": "weather", "arguments": "{}"}
    (added, _) = talk.create(made)
    assert added["item"]["status"] == "completed" and added["item"]["arguments"] == "{}"
    talk.create(output("c"))
    talk.respond()
    assert [m.role for m in talk.asked[-1].messages] == ["user", "assistant", "tool"]
    talk.reply("Yes.")
    context = [said("Now?"), {**made, "call_id": "d"}, output("d")]
    talk.respond({"conversation": "none", "input": context})
    assert [m.role for m in talk.asked[-1].messages] == ["user", "assistant", "tool"]


def looked_up(said_first: str = "") -> Talk:
    """Behind a conversation, a tool is called twice, and what came of it is to be answered."""
    talk = Talk()
    talk.say_text("Hi")
    talk.respond()
    talk.reply("Hello")
    talk.update({"tools": [TOOL]})
    talk.say_text("Is it raining?")
    talk.respond()
    talk.begin()
    if said_first:
        talk.speak(said_first)
    talk.call(0, "weather", '{"city":"Rome"}')
    talk.call(1, "weather", '{"city":"Oslo"}')
    talk.end(reason="tool_calls")
    calls = [item for item in talk.done[-1]["output"] if item["type"] == "function_call"]
    for call in calls:
        talk.create(output(call["call_id"], "it rains " * 9))
    talk.respond()
    return talk


@pytest.mark.parametrize("said_first", ["", "Let me see."])
def test_what_came_of_tools_is_answered_with_its_calls_and_its_question_or_not_at_all(
    said_first: str,
) -> None:
    talk = looked_up(said_first)
    while talk.running:
        messages = talk.asked[-1].messages
        assert [m.role for m in messages][-3:] == ["assistant", "tool", "tool"]
        assert len(messages[-3].calls) == 2
        assert ("user", "Is it raining?") in talk.prompt()
        talk.break_off("context_length_exceeded")
    assert talk.done[-1]["status"] == "failed"
    assert talk.done[-1]["status_details"]["error"]["code"] == "context_length_exceeded"
    assert len(talk.prompt()) == 4, "all else was left out"
    talk.respond()  # once more, and as much in vain
    while talk.running:
        assert ("user", "Is it raining?") in talk.prompt() and len(talk.prompt()) >= 4
        talk.break_off("context_length_exceeded")
    talk.say_text("Never mind. And now?")
    talk.respond()
    talk.break_off("context_length_exceeded")
    assert not any(m.calls or m.role == "tool" for m in talk.asked[-1].messages)
    assert ("assistant", "Hello") in talk.prompt()


def test_what_came_of_tools_before_goes_first() -> None:
    talk = looked_up()
    talk.begin()
    talk.call(0, "weather", "{}")
    talk.end(reason="tool_calls")
    (call,) = talk.done[-1]["output"]
    talk.create(output(call["call_id"], "no rain"))
    talk.respond()
    while len(talk.prompt()) > 3:
        talk.break_off("context_length_exceeded")
    question, made, back = talk.asked[-1].messages
    assert [c.id for c in made.calls] == [back.call] == [call["call_id"]]
    assert talk.prompt()[0] == ("user", "Is it raining?")
    talk.reply("No.")
    assert talk.done[-1]["status"] == "completed"


def test_a_schema_that_the_engine_refuses_is_named_as_on_this_wire() -> None:
    talk = asked()
    talk.begin()
    answer = talk.answer
    del talk.running[answer]
    why = "tools[0].function.parameters: expected a schema that answers can keep to"
    talk.engine(AnswerFailed(SESSION, answer, "invalid_value", why))
    error = talk.done[-1]["status_details"]["error"]
    assert error["message"].startswith("tools[0].parameters: expected a schema")
    assert error["type"] == "invalid_request_error"
