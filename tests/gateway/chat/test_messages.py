"""Messages over HTTP: the anthropic package unmodified, and every object and event checked."""

from __future__ import annotations

import base64
import json
import re
import sys
from collections.abc import AsyncIterator
from typing import Any

import anthropic
import httpx
import pytest
import pytest_asyncio
from anthropic import AsyncAnthropic
from anthropic.types import Message, RawMessageStreamEvent
from pydantic import TypeAdapter

from lookhear.engine.messages import AnswerCompleted, AnswerUsage, ImagePart, TextPart
from lookhear.gateway.chat.messages.rendering import Reply
from lookhear.gateway.config import GatewayConfig
from tests.gateway.chatting import client, each, jpeg, png
from tests.gateway.fake_chat import VISION
from tests.gateway.fake_engine import FakeEngine
from tests.gateway.running import Running, running

pytestmark = pytest.mark.asyncio(loop_scope="module")

URL = "/v1/messages"
TOOL: dict[str, Any] = {
    "name": "f",
    "description": "does it",
    "input_schema": {"type": "object", "properties": {"a": {"type": "integer"}}},
}
EVENTS: TypeAdapter[Any] = TypeAdapter(RawMessageStreamEvent)
MAX = sys.float_info.max
KEEP_ALL: dict[str, Any] = {"type": "clear_thinking_20251015", "keep": "all"}
ASKED: dict[str, Any] = {"model": "claude", "max_tokens": 64}


@pytest_asyncio.fixture(loop_scope="module")
async def http(seeing: Running) -> AsyncIterator[httpx.AsyncClient]:
    async for it in each(seeing):
        yield it


@pytest_asyncio.fixture(loop_scope="module")
async def sdk(seeing: Running) -> AsyncIterator[AsyncAnthropic]:
    seeing.engine.be_well()
    async with AsyncAnthropic(api_key="none", base_url=seeing.http, max_retries=0) as client:
        yield client


def picture(data: bytes, kind: str = "image/png") -> dict[str, Any]:
    source = {"type": "base64", "media_type": kind, "data": base64.b64encode(data).decode()}
    return {"type": "image", "source": source}


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


def user(*content: dict[str, Any]) -> Any:
    return [{"role": "user", "content": list(content)}]


def check_stream(streamed: httpx.Response) -> dict[str, Any]:
    """Every event by the SDK's own types; -> the message that they make up."""
    assert streamed.headers["content-type"].startswith("text/event-stream")
    built: dict[str, Any] = {}
    for event in streamed.text.split("\n\n")[:-1]:
        name, data = event.split("\n")
        told = json.loads(data.removeprefix("data: "))
        assert name == f"event: {told['type']}"
        if told["type"] == "ping":
            continue
        EVENTS.validate_python(told)
        match told:
            case {"type": "message_start", "message": message}:
                assert message["content"] == [] and message["stop_reason"] is None
                built = message
            case {"type": "content_block_start", "index": index, "content_block": block}:
                assert index == len(built["content"])
                built["content"].append(block | {"json": ""})
            case {"type": "content_block_delta", "index": index, "delta": delta}:
                assert index == len(built["content"]) - 1
                if delta["type"] == "text_delta":
                    built["content"][index]["text"] += delta["text"]
                else:
                    built["content"][index]["json"] += delta["partial_json"]
            case {"type": "message_delta", "delta": delta, "usage": usage}:
                built |= {**delta, "usage": usage}
    assert told == {"type": "message_stop"}
    for block in built["content"]:
        arguments = block.pop("json")
        if block["type"] == "tool_use":
            block["input"] = json.loads(arguments)
    return built


async def test_the_sdk_asks_about_a_picture(sdk: AsyncAnthropic, seeing: Running) -> None:
    answer = await sdk.messages.create(
        **ASKED,
        system=[{"type": "text", "text": "be short", "cache_control": {"type": "ephemeral"}}],
        messages=user(picture(png()), text("what is it")),
        metadata={"user_id": "somebody"},
    )
    [block] = answer.content
    assert block.type == "text" and block.text == "picture 40x30, you said what is it"
    assert (answer.model, answer.stop_reason) == ("fake/vision", "end_turn")
    assert (answer.usage.input_tokens, answer.usage.output_tokens) == (7, 7)
    assert (answer._request_id or "").startswith("req_")
    start = seeing.engine.chat.started[-1]
    assert [message.role for message in start.messages] == ["system", "user"]
    assert start.settings.max_tokens == 64 and start.settings.may_shrink


async def test_the_sdks_stream_helper(sdk: AsyncAnthropic) -> None:
    """It puts the whole together itself."""
    thinking: Any = {"type": "enabled", "budget_tokens": 1024}
    asked = {**ASKED, "messages": user(text("a b")), "thinking": thinking}
    kinds: list[str] = []
    async with sdk.messages.stream(**asked) as stream:
        async for event in stream:
            kinds.append(event.type)
        streamed = await stream.get_final_message()
    whole = await sdk.messages.create(**asked)
    shown = [block.to_dict() for block in whole.content]
    assert [block.to_dict() | {"citations": None} for block in streamed.content] == [
        block | {"citations": None} for block in shown
    ]
    assert [block["type"] for block in shown] == ["thinking", "text"]
    assert shown[0]["thinking"].strip() == "let me look" and shown[1]["text"] == "you said a b"
    assert streamed.stop_reason == whole.stop_reason == "end_turn"
    assert streamed.usage.output_tokens == whole.usage.output_tokens == 7
    assert kinds[0] == "message_start" and kinds[-1] == "message_stop"


async def test_what_the_context_cuts_off_is_told() -> None:
    room = VISION.context_tokens - 64
    for prompt, reason in ((room, "max_tokens"), (room + 1, "model_context_window_exceeded")):
        cut = AnswerCompleted("s", "a", "length", AnswerUsage(prompt=prompt))
        reply = Reply(VISION, lambda prefix: prefix, most=64)
        assert reply.whole([(0, cut)])["stop_reason"] == reason


async def test_what_ends_an_answer_is_told(sdk: AsyncAnthropic) -> None:
    said = user(text("one two three"))
    cut = await sdk.messages.create(**{**ASKED, "max_tokens": 2}, messages=said)
    assert (cut.stop_reason, cut.stop_sequence) == ("max_tokens", None)
    stopped = await sdk.messages.create(**ASKED, messages=said, stop_sequences=["three", " two"])
    assert (stopped.stop_reason, stopped.stop_sequence) == ("stop_sequence", " two")
    [block] = stopped.content
    assert block.type == "text" and block.text == "you said one"


async def test_the_sdk_calls_tools_and_tells_what_came_of_it(
    sdk: AsyncAnthropic, seeing: Running
) -> None:
    asked = user(text('so call f {"a": 1} & f {"a": 2}'))
    tools: Any = [TOOL]
    first = await sdk.messages.create(**ASKED, messages=asked, tools=tools)
    assert first.stop_reason == "tool_use"
    calls = [block for block in first.content if block.type == "tool_use"]
    assert [(call.name, call.input) for call in calls] == [("f", {"a": 1}), ("f", {"a": 2})]
    assert calls[0].id != calls[1].id and calls[0].id.startswith("toolu_")
    results: list[Any] = [
        {"type": "tool_result", "tool_use_id": calls[0].id, "content": "fine"},
        {
            "type": "tool_result",
            "tool_use_id": calls[1].id,
            "content": [text("not fine")],
            "is_error": True,
        },
        text("and now"),
    ]
    second = await sdk.messages.create(
        **ASKED,
        messages=[*asked, {"role": "assistant", "content": first.content}, *user(*results)],
        tools=tools,
        tool_choice={"type": "auto", "disable_parallel_tool_use": True},
    )
    [block] = second.content
    assert block.type == "text" and block.text == "you said and now"
    start = seeing.engine.chat.started[-1]
    roles = [message.role for message in start.messages]
    assert roles == ["user", "assistant", "tool", "tool", "user"]
    assert start.messages[2].parts == [TextPart("fine")]
    assert start.messages[3].parts == [TextPart("Error: "), TextPart("not fine")]
    assert [call.arguments for call in start.messages[1].calls] == ['{"a": 1}', '{"a": 2}']
    assert not start.settings.parallel_calls and not start.settings.must_call


async def test_tools_may_show_pictures(sdk: AsyncAnthropic, seeing: Running) -> None:
    call = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}
    asked = [*user(text("so")), {"role": "assistant", "content": [call]}]

    def shown(*content: dict[str, Any]) -> Any:
        result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": list(content)}
        return [*asked, *user(result)]

    messages = shown(text("a shot"), picture(png(), "image/png"))
    await sdk.messages.create(**ASKED, messages=messages, tools=[TOOL])  # type: ignore[list-item]
    *_, told = seeing.engine.chat.started[-1].messages
    assert (told.role, told.call) == ("tool", "toolu_1")
    assert told.parts[0] == TextPart("a shot") and isinstance(told.parts[1], ImagePart)
    broken = shown(text("a shot"), picture(b"no picture", "image/png"))
    where = r"messages\[2\].content\[0\].content\[1\].source.data"
    with pytest.raises(anthropic.BadRequestError, match=where):
        await sdk.messages.create(**ASKED, messages=broken)


async def test_an_answer_goes_on_with_what_it_is_given(
    http: httpx.AsyncClient, seeing: Running
) -> None:
    body = [*user(text("a")), {"role": "assistant", "content": "The"}]
    assert (await http.post(URL, json={**ASKED, "messages": body})).status_code == 200
    start = seeing.engine.chat.started[-1]
    assert start.settings.continues and start.messages[-1].parts == [TextPart("The")]
    assert (await http.post(URL, json={**ASKED, "messages": body[:1]})).status_code == 200
    assert not seeing.engine.chat.started[-1].settings.continues


async def test_a_text_that_cites_nothing_has_no_field_for_it(http: httpx.AsyncClient) -> None:
    """As at Anthropic: the AI SDK's models take it for a list."""
    body = {**ASKED, "messages": user(text("a"))}
    whole = (await http.post(URL, json=body)).json()
    streamed = check_stream(await http.post(URL, json={**body, "stream": True}))
    for message in (whole, streamed):
        assert [set(block) for block in message["content"]] == [{"type", "text"}]


async def test_how_much_effort_is_one_of_the_apis_words(sdk: AsyncAnthropic) -> None:
    asked = {**ASKED, "messages": user(text("a"))}
    for fits in ("low", "medium", "high", "xhigh", "max", None):
        await sdk.messages.create(**asked, output_config={"effort": fits})
    expected = "output_config.effort: expected one of low, medium, high, xhigh, max, got"
    for odd, got in (("hihg", '"hihg"'), ([], "[]")):
        refused = re.escape(f"{expected} {got}")
        with pytest.raises(anthropic.BadRequestError, match=refused):
            await sdk.messages.create(**asked, extra_body={"output_config": {"effort": odd}})


async def test_what_claude_code_sends_is_taken(sdk: AsyncAnthropic) -> None:
    for keep in ("all", {"type": "all"}):
        kept: Any = {"edits": [{**KEEP_ALL, "keep": keep}]}
        answer = await sdk.beta.messages.create(
            **ASKED,
            messages=user(text("a")),
            betas=["context-management-2025-06-27", "interleaved-thinking-2025-05-14"],
            context_management=kept,
            thinking={"type": "adaptive"},
            output_config={"effort": "medium"},
            metadata={"user_id": "somebody"},
        )
        assert answer.stop_reason == "end_turn"


async def test_the_schema_of_older_sdks_is_kept_to(sdk: AsyncAnthropic, seeing: Running) -> None:
    form = {"type": "json_schema", "schema": {"type": "object", "required": ["a"]}}
    for fields in ({"output_format": form}, {"output_config": {"format": form}}):
        await sdk.messages.create(**ASKED, messages=user(text("a")), extra_body=fields)
        schema = seeing.engine.chat.started[-1].settings.schema
        assert schema is not None and json.loads(schema) == form["schema"]


@pytest.mark.parametrize(
    ("choice", "must", "may", "count"),
    [
        ({"type": "auto"}, False, [], 1),
        ({"type": "any"}, True, [], 1),
        ({"type": "tool", "name": "f"}, True, ["f"], 1),
        ({"type": "none"}, False, [], 0),
        (None, False, [], 1),
    ],
)
async def test_choices_of_tools(
    http: httpx.AsyncClient, seeing: Running, choice: Any, must: bool, may: list[str], count: int
) -> None:
    fields = {"tools": [TOOL], "tool_choice": choice, "messages": user(text("a"))}
    assert (await http.post(URL, json=ASKED | fields)).status_code == 200
    settings = seeing.engine.chat.started[-1].settings
    found = settings.must_call, settings.may_call, len(settings.tools)
    assert found == (must, may, count)
    assert settings.parallel_calls is not bool(may)  # one that is forced is called once
    if may:
        fields["tool_choice"] = {**choice, "disable_parallel_tool_use": False}
        assert (await http.post(URL, json=ASKED | fields)).status_code == 200
        assert seeing.engine.chat.started[-1].settings.parallel_calls


@pytest.mark.parametrize("asked", ['so call f {"a": 1}', "a b c", 'call f {} & f {"a": 3}'])
async def test_a_stream_makes_up_what_is_whole(http: httpx.AsyncClient, asked: str) -> None:
    body = {**ASKED, "messages": user(text(asked)), "tools": [TOOL]}
    whole = (await http.post(URL, json=body)).json()
    Message.model_validate(whole)
    streamed = await http.post(URL, json={**body, "stream": True})
    built = check_stream(streamed)
    for message in (built, whole):
        message["id"] = ""
        for block in message["content"]:
            block["id"] = ""
    assert built == whole


@pytest.mark.parametrize(
    ("arguments", "read"),
    [
        ('{"a": 1e999, "b": [-1e999, 1.5]}', {"a": MAX, "b": [-MAX, 1.5]}),
        ('{"a": "b", "c": 1e99', {"a": "b", "c": 1e99}),
        ('{"a": ' + "1" * 5000 + "}", {}),
        ('{"a": "\\ud83d"}', {}),
        ('{"a": ' + "[" * 500, {}),
    ],
)
async def test_whatever_arguments_a_model_writes_there_is_an_answer(
    http: httpx.AsyncClient, arguments: str, read: Any
) -> None:
    body = {**ASKED, "messages": user(text(f"call f {arguments}")), "tools": [TOOL]}
    answer = await http.post(URL, json=body)
    assert answer.status_code == 200, answer.text
    assert answer.json()["content"][0]["input"] == read
    assert "message_stop" in (await http.post(URL, json={**body, "stream": True})).text


async def test_tokens_are_counted(sdk: AsyncAnthropic) -> None:
    counted = await sdk.messages.count_tokens(
        model="claude", system="be short", messages=user(picture(jpeg()), text("what is it"))
    )
    assert counted.input_tokens == 7


async def test_the_sdk_lists_models(sdk: AsyncAnthropic) -> None:
    page = await sdk.models.list()
    one = await sdk.models.retrieve(page.data[0].id)
    assert page.has_more is False and (page.first_id, page.last_id) == (one.id, page.data[-1].id)
    for model in (one, *page.data):
        assert (model.type, model.display_name) == ("model", model.id)
        assert model.created_at.tzinfo is not None


async def test_results_of_a_search_are_read(sdk: AsyncAnthropic, seeing: Running) -> None:
    """As a client hands them over, with the question or as what its tool found."""
    found: Any = {
        "type": "search_result",
        "source": "https://example.com/a",
        "title": "About a",
        "content": [text("a is first."), text("b is not.")],
        "citations": {"enabled": True},
    }
    call = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "t", "content": [found]}
    for messages in (
        user(found, text("who is first?")),
        [*user(text("?")), {"role": "assistant", "content": [call]}, *user(result)],
    ):
        await sdk.messages.create(**ASKED, messages=messages)
        told = seeing.engine.chat.started[-1].messages[-1].parts
        said = [part.text for part in told if isinstance(part, TextPart)]
        assert said[:3] == ["About a\nhttps://example.com/a\n", "a is first.", "b is not."]
    for broken, where in (
        ({**found, "title": 1}, "messages[0].content[0].title"),
        ({**found, "content": [picture(png())]}, "messages[0].content[0].content[0].type"),
    ):
        with pytest.raises(anthropic.BadRequestError, match=re.escape(where)):
            await sdk.messages.create(**ASKED, messages=user(broken))


async def test_documents_of_text(http: httpx.AsyncClient, seeing: Running) -> None:
    plain = {"type": "text", "media_type": "text/plain", "data": "a b"}
    nested = {"type": "content", "content": [text("c"), text("d")]}
    body = user(
        {"type": "document", "title": "T", "source": plain},
        {"type": "document", "source": nested},
        text("what"),
    )
    assert (await http.post(URL, json={**ASKED, "messages": body})).status_code == 200
    [message] = seeing.engine.chat.started[-1].messages
    said = [part.text for part in message.parts if isinstance(part, TextPart)]
    assert said == ["T\n", "a b", "c", "d", "what"]


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"max_tokens": None}, "max_tokens: expected a number"),
        ({"messages": []}, "messages: expected at least one message"),
        ({"messages": [{"role": "tool"}]}, r"messages[0].role: expected user or assistant"),
        (
            {"messages": [*user(text("a")), {"role": "assistant", "content": "The "}]},
            "messages[1].content: expected a text that does not end in white space",
        ),
        (
            {
                "messages": [
                    *user(text("a")),
                    {
                        "role": "assistant",
                        "content": [{"type": "tool_use", "id": "x", "name": "f", "input": {}}],
                    },
                ]
            },
            "messages[1]: expected a text of the assistant in the end, which is gone on with",
        ),
        (
            {"messages": user({"type": "tool_result", "tool_use_id": "x", "content": ""})},
            "messages[0].content[0].tool_use_id: expected the id of a tool_use",
        ),
        (
            {"messages": user({"type": "image", "source": {"type": "file", "file_id": "f"}})},
            "no files are stored here",
        ),
        (
            {
                "messages": user(
                    {"type": "document", "source": {"type": "base64", "data": "", "media_type": ""}}
                )
            },
            "messages[0].content[0].source.type: expected text or content",
        ),
        (
            {"tools": [{"type": "web_search_20250305", "name": "web_search"}]},
            'tools[0].type: expected "custom", nothing else runs here',
        ),
        (
            {"tools": [{"name": "f", "input_schema": {"type": "string"}}]},
            "tools[0].input_schema: expected a schema of type",
        ),
        ({"tool_choice": {"type": "tool", "name": "g"}}, 'tool_choice: expected no tool, got "g"'),
        ({"tool_choice": {"type": "tool"}}, "tool_choice.name: expected the name of a tool"),
        ({"tool_choice": {"type": "any"}}, "tool_choice: expected"),
        ({"stop": ["a"]}, "in this API it is stop_sequences"),
        ({"context_management": 5}, "context_management: expected an object with edits"),
        ({"context_management": {"edits": 5}}, "context_management.edits: expected a list"),
        (
            {"context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]}},
            "context_management.edits[0]: expected none, nothing is cleared",
        ),
        (
            {"context_management": {"edits": [KEEP_ALL["type"]]}},
            "context_management.edits[0]: expected none, nothing is cleared",
        ),
        (
            {"context_management": {"edits": [{**KEEP_ALL, "keep": {"type": "thinking_turns"}}]}},
            'context_management.edits[0].keep: expected "all"',
        ),
        ({"temperature": 3}, "temperature"),
    ],
)
async def test_what_cannot_be_used_is_refused_in_their_words(
    http: httpx.AsyncClient, fields: dict[str, Any], told: str
) -> None:
    answer = await http.post(URL, json={**ASKED, "messages": user(text("a")), **fields})
    body = answer.json()
    assert answer.status_code == 400, body
    assert body["type"] == "error" and body["error"]["type"] == "invalid_request_error"
    assert told in body["error"]["message"]
    assert body["request_id"] == answer.headers["request-id"] == answer.headers["x-request-id"]


async def test_a_picture_that_is_too_long_is_a_prompt_that_is(
    http: httpx.AsyncClient, seeing: Running
) -> None:
    seeing.engine.chat.fail_next("context_length_exceeded", "expected pictures that fit", 0, 0)
    answer = await http.post(URL, json={**ASKED, "messages": user(text("a"))})
    message = answer.json()["error"]["message"]
    told = "prompt is too long: messages[0].content[0]: expected pictures that fit"
    assert message.startswith(told)


async def test_errors_are_those_of_the_sdk(sdk: AsyncAnthropic, seeing: Running) -> None:
    asked: dict[str, Any] = {**ASKED, "messages": user(text("a"))}
    with pytest.raises(anthropic.BadRequestError, match="at least one message") as refused:
        await sdk.messages.create(**{**asked, "messages": []})
    assert refused.value.request_id is not None
    seeing.engine.chat.fail_next("engine_fault", "it broke")
    with pytest.raises(anthropic.APIStatusError) as broken:
        async with sdk.messages.stream(**asked) as stream:
            await stream.get_final_message()
    assert broken.value.body == {
        "type": "error",
        "error": {"type": "api_error", "message": "it broke"},
    }


async def test_the_key_comes_in_their_header() -> None:
    config = GatewayConfig(port=0, api_keys=("sesame",))
    async with running(config, FakeEngine(sees=True)) as gateway:
        async with AsyncAnthropic(api_key="sesame", base_url=gateway.http, max_retries=0) as good:
            answer = await good.messages.create(**ASKED, messages=user(text("a")))
            assert answer.stop_reason == "end_turn"
        async with AsyncAnthropic(api_key="wrong", base_url=gateway.http, max_retries=0) as bad:
            with pytest.raises(anthropic.AuthenticationError, match="X-Api-Key"):
                await bad.messages.create(**ASKED, messages=user(text("a")))
        async with client(gateway) as plain:
            refused = await plain.post("/v1/messages/count_tokens", json={})
            assert refused.status_code == 401
            assert refused.json()["error"]["type"] == "authentication_error"
