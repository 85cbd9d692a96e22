"""Responses over HTTP: the openai package unmodified, and every object and event checked."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from typing import Any

import httpx
import openai
import pydantic
import pytest
import pytest_asyncio
from openai import AsyncOpenAI

from lookhear.engine.messages import AnswerSettings, ImagePart, TextPart, VideoPart
from lookhear.gateway.config import GatewayConfig
from lookhear.gateway.services.siblings import Siblings
from tests.gateway.chat.responding import (
    RESPONSES,
    check_events,
    check_items,
    check_response,
    events_of,
    respond,
    said,
    text,
)
from tests.gateway.chatting import client, data_url, each, jpeg, png
from tests.gateway.fake_engine import FakeEngine
from tests.gateway.files.test_http import wav
from tests.gateway.running import Running, running

pytestmark = pytest.mark.asyncio(loop_scope="module")

FUNCTION = {
    "type": "function",
    "name": "f",
    "description": "does it",
    "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}},
    "strict": False,
}
THINKING = {"chat_template_kwargs": {"enable_thinking": True}}


@pytest_asyncio.fixture(loop_scope="module")
async def http(seeing: Running) -> AsyncIterator[httpx.AsyncClient]:
    async for it in each(seeing):
        yield it


@pytest_asyncio.fixture(loop_scope="module")
async def sdk(seeing: Running) -> AsyncIterator[AsyncOpenAI]:
    seeing.engine.be_well()
    async with AsyncOpenAI(api_key="none", base_url=f"{seeing.http}/v1", max_retries=0) as client:
        yield client


async def test_the_sdk_asks_about_a_picture_and_goes_on(sdk: AsyncOpenAI, seeing: Running) -> None:
    first = await sdk.responses.create(
        model="gpt-5",
        instructions="be short",
        input=[
            {
                "role": "user",
                "content": [
                    {"type": "input_image", "image_url": data_url(png()), "detail": "low"},
                    {"type": "input_text", "text": "what is it"},
                ],
            }
        ],
        metadata={"a": "b"},
    )
    assert first.output_text == "picture 40x30, you said what is it"
    assert (first.model, first.status, first.metadata) == ("fake/vision", "completed", {"a": "b"})
    assert first.usage is not None and first.usage.input_tokens == 7
    second = await sdk.responses.create(input="and now", previous_response_id=first.id)
    assert second.output_text == "picture 40x30, you said and now"
    assert second.previous_response_id == first.id and second.instructions is None
    *_, start = seeing.engine.chat.started
    assert [message.role for message in start.messages] == ["user", "assistant", "user"]
    assert start.messages[1].parts == [TextPart(first.output_text)]
    third = await sdk.responses.create(input="still", previous_response_id=second.id)
    listed = [item async for item in sdk.responses.input_items.list(third.id, order="asc", limit=2)]
    assert [getattr(item, "role", None) for item in listed] == [
        *("user", "assistant", "user", "assistant", "user")
    ]
    assert await sdk.responses.retrieve(third.id) == third
    await sdk.responses.delete(second.id)
    with pytest.raises(openai.NotFoundError):
        await sdk.responses.retrieve(second.id)
    after = await sdk.responses.create(input="and", previous_response_id=third.id)
    assert after.output_text == "picture 40x30, you said and"


async def test_tokens_are_counted(sdk: AsyncOpenAI, seeing: Running) -> None:
    first = await sdk.responses.create(model="gpt-5", input="what is it")
    asked: Any = {"input": "and now", "previous_response_id": first.id, "instructions": "be short"}
    counted = await sdk.responses.input_tokens.count(model="gpt-5", **asked)
    *_, start = seeing.engine.chat.started
    assert [message.role for message in start.messages] == ["system", "user", "assistant", "user"]
    assert start.settings.max_tokens == 1
    usage = (await sdk.responses.create(model="gpt-5", **asked)).usage
    assert usage is not None and counted.input_tokens == usage.input_tokens
    assert counted.object == "response.input_tokens"
    wrong: Any = [{"type": "none"}]
    with pytest.raises(openai.BadRequestError, match="input"):
        await sdk.responses.input_tokens.count(model="gpt-5", input=wrong)


async def test_the_sdks_stream_helper(sdk: AsyncOpenAI) -> None:
    """It checks more than `create` does, and puts the whole together itself."""
    kinds = []
    async with sdk.responses.stream(
        model="fake/vision", input="a b", extra_body=THINKING
    ) as stream:
        async for event in stream:
            kinds.append(event.type)
        whole = await stream.get_final_response()
    assert whole.output_text == "you said a b"
    assert kinds.count("response.output_text.delta") == 4
    assert kinds.count("response.reasoning_text.delta") == 3
    assert [item.type for item in whole.output] == ["reasoning", "message"]


async def test_the_sdk_calls_functions(sdk: AsyncOpenAI, seeing: Running) -> None:
    tools: Any = [FUNCTION]
    first = await sdk.responses.create(
        model="fake/vision", input='so call f {"a": 1} & f {"a": 2}', tools=tools
    )
    one, two = (item for item in first.output if item.type == "function_call")
    assert (one.name, one.arguments, two.arguments) == ("f", '{"a": 1}', '{"a": 2}')
    assert one.call_id != two.call_id
    told: Any = [
        {"type": "function_call_output", "call_id": one.call_id, "output": "one"},
        {"type": "function_call_output", "call_id": two.call_id, "output": [text("two")]},
    ]
    by_id = await sdk.responses.create(
        model="fake/vision", input=told, previous_response_id=first.id, tools=tools
    )
    assert by_id.output_text == "you said two"
    given_back: Any = [item.model_dump(exclude_none=True) for item in first.output]
    by_hand = await sdk.responses.create(
        model="fake/vision",
        input=[
            {"role": "user", "content": 'so call f {"a": 1} & f {"a": 2}'},
            *given_back,
            *told,
        ],
        store=False,
    )
    assert by_hand.output_text == "you said two"
    references: Any = [{"type": "item_reference", "id": item.id} for item in first.output]
    by_reference = await sdk.responses.create(
        model="fake/vision",
        input=[
            {"role": "user", "content": 'so call f {"a": 1} & f {"a": 2}'},
            *references,
            *told,
        ],
    )
    assert by_reference.output_text == "you said two"
    asked = [start.messages for start in seeing.engine.chat.started[1:]]
    assert asked[0] == asked[1] == asked[2]
    answer, tool, other = asked[0][1:]
    assert [call.arguments for call in answer.calls] == ['{"a": 1}', '{"a": 2}']
    assert answer.parts == [TextPart("so")]
    assert (tool.role, tool.call, tool.parts) == ("tool", one.call_id, [TextPart("one")])
    assert (other.role, other.call) == ("tool", two.call_id)


async def test_functions_may_show_pictures(sdk: AsyncOpenAI, seeing: Running) -> None:
    shot = {"type": "input_image", "image_url": data_url(png()), "detail": "low"}
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    told = {"type": "function_call_output", "call_id": "c", "output": [text("a shot"), shot]}
    asked: Any = [{"role": "user", "content": "so"}, call, told]
    first = await sdk.responses.create(model="fake/vision", input=asked)
    await sdk.responses.create(model="fake/vision", input="b", previous_response_id=first.id)
    for start in seeing.engine.chat.started[-2:]:
        output = start.messages[2]
        assert (output.role, output.call, output.parts[0]) == ("tool", "c", TextPart("a shot"))
        assert isinstance(output.parts[1], ImagePart) and output.parts[1].detail == "low"


async def test_tools_that_run_elsewhere_may_stand_beside_functions(
    http: httpx.AsyncClient, seeing: Running
) -> None:
    mixed: list[Any] = [  # as Codex tells of them, whoever it asks
        {"type": "web_search", "external_web_access": False},
        FUNCTION,
        {"type": "image_generation", "output_format": "png"},
        {**FUNCTION, "name": "g"},
        {"type": "custom", "name": "apply_patch", "format": {"type": "text"}},
    ]
    answer = await respond(http, "x", tools=mixed)
    response = check_response(answer.json())
    assert answer.headers["x-lookhear-ignored"] == "tools[0], tools[2], tools[4]"
    assert [getattr(tool, "name", None) for tool in response.tools] == ["f", "g"]
    assert [tool.name for tool in seeing.engine.chat.started[-1].settings.tools] == ["f", "g"]
    broken = [*mixed[:3], {**FUNCTION, "name": "two words"}]
    error = (await respond(http, "x", tools=broken)).json()["error"]
    assert error["param"] == "tools[3].name" and error["message"].startswith("tools[3].name: ")
    chosen = {"type": "web_search"}
    error = (await respond(http, "x", tools=mixed, tool_choice=chosen)).json()["error"]
    assert error["param"] == "tool_choice"


async def test_functions_of_a_namespace_are_called_in_the_clients_words(
    sdk: AsyncOpenAI, http: httpx.AsyncClient, seeing: Running
) -> None:
    inner: list[Any] = [
        {**FUNCTION, "name": "g"},
        {"type": "custom", "name": "h"},
        FUNCTION,
        {**FUNCTION, "name": "f" * 64},
    ]
    crm: Any = {"type": "namespace", "name": "crm", "description": "of customers", "tools": inner}
    mcp: Any = {**crm, "name": "mcp__x__", "tools": [FUNCTION]}
    asked = "so call mcp__x__f {} & crm__f {} & f {}"
    tools: Any = [crm, FUNCTION, mcp]
    first = await sdk.responses.create(model="fake/vision", input=asked, tools=tools)
    calls = [item for item in first.output if item.type == "function_call"]
    assert [(c.namespace, c.name) for c in calls] == [("mcp__x__", "f"), ("crm", "f"), (None, "f")]
    told: Any = [
        {"type": "function_call_output", "call_id": call.call_id, "output": "x"} for call in calls
    ]
    given_back: Any = [item.model_dump(exclude_none=True) for item in first.output]
    by_hand: Any = [{"role": "user", "content": asked}, *given_back, *told]
    for fields in ({"input": told, "previous_response_id": first.id}, {"input": by_hand}):
        await sdk.responses.create(model="fake/vision", tools=tools, **fields)
        start = seeing.engine.chat.started[-1]
        named = [call.name for call in start.messages[1].calls]
        assert named == ["mcp__x__f", "crm__f", "f"]
    known = [tool.name for tool in seeing.engine.chat.started[0].settings.tools]
    assert known == ["crm__g", "crm__f", "f", "mcp__x__f"]
    answer = await respond(http, asked, tools=tools)
    check_response(answer.json())
    shown = answer.json()["tools"]
    assert [tool["name"] for tool in shown] == ["crm", "f", "mcp__x__"]
    assert [tool["name"] for tool in shown[0]["tools"]] == ["g", "f"]
    assert answer.headers["x-lookhear-ignored"] == "tools[0].tools[1], tools[0].tools[3]"
    check_events((await respond(http, asked, tools=tools, stream=True)).text)
    broken = [FUNCTION, {**crm, "tools": [FUNCTION, {**FUNCTION, "parameters": 5, "name": "i"}]}]
    error = (await respond(http, "x", tools=broken)).json()["error"]
    assert error["param"] == "tools[1].tools[1].parameters"
    for wrong, at in (({"tools": 5}, "tools[0].tools"), ({"name": 5}, "tools[0].name")):
        error = (await respond(http, "x", tools=[{**crm, **wrong}])).json()["error"]
        assert error["param"] == at


async def test_who_goes_on_may_have_nothing_to_add(sdk: AsyncOpenAI, seeing: Running) -> None:
    first = await sdk.responses.create(model="fake/vision", input="a")
    nothing: list[dict[str, Any]] = [{}, {"input": []}]
    for more in nothing:
        again = await sdk.responses.create(
            model="fake/vision", previous_response_id=first.id, **more
        )
        assert again.previous_response_id == first.id
        roles = [message.role for message in seeing.engine.chat.started[-1].messages]
        assert roles == ["user", "assistant"]
    with pytest.raises(openai.BadRequestError, match="input: expected a text or a list"):
        await sdk.responses.create(model="fake/vision")


async def test_nothing_is_made_in_the_background_to_be_cancelled(sdk: AsyncOpenAI) -> None:
    kept = await sdk.responses.create(model="fake/vision", input="a")
    with pytest.raises(openai.BadRequestError, match="made in the background"):
        await sdk.responses.cancel(kept.id)
    with pytest.raises(openai.NotFoundError, match="resp_nobody"):
        await sdk.responses.cancel("resp_nobody")


async def test_nothing_is_compacted(sdk: AsyncOpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match="nothing is compacted here"):
        await sdk.responses.compact(model="fake/vision", input="a")


class Form(pydantic.BaseModel):
    a: int


async def test_the_sdk_parses_what_keeps_to_a_schema(sdk: AsyncOpenAI, seeing: Running) -> None:
    with pytest.raises(pydantic.ValidationError, match="you said"):  # which is no JSON
        await sdk.responses.parse(model="fake/vision", input="x", text_format=Form)
    (start,) = seeing.engine.chat.started
    assert start.settings.schema is not None and '"a"' in start.settings.schema


async def test_errors_reach_the_sdk_as_its_own(sdk: AsyncOpenAI, seeing: Running) -> None:
    with pytest.raises(openai.BadRequestError) as bad:
        await sdk.responses.create(model="fake/vision", input="x", background=True)
    assert bad.value.param == "background" and bad.value.code == "unsupported_parameter"
    with pytest.raises(openai.BadRequestError, match="web_search"):
        await sdk.responses.create(model="fake/vision", input="x", tools=[{"type": "web_search"}])
    with pytest.raises(openai.NotFoundError, match="resp_nobody"):
        await sdk.responses.retrieve("resp_nobody")
    seeing.engine.chat.fail_next("server_error")
    stream = await sdk.responses.create(model="fake/vision", input="x", stream=True)
    *_, last = [event async for event in stream]
    assert last.type == "response.failed" and last.response.error is not None
    assert "asked to fail" in last.response.error.message


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"include": ["message.output_text.logprobs"]},
        {"top_logprobs": 3, "max_output_tokens": 2},
        {"stop": "said", **THINKING},
        {"max_output_tokens": 2, **THINKING},
        {"max_output_tokens": 3, **THINKING},
        {"stop": "you"},  # which is all that is said
        {"tools": [FUNCTION], "input": 'so call f {"a": 1} & f {"a": 2}'},
        {"tools": [FUNCTION], "input": "call f {}", **THINKING},
        {"text": {"format": {"type": "json_object"}}, "tool_choice": "none"},
        {"instructions": "x", "metadata": {"a": "b"}, "store": False, "temperature": 0.0},
        {"tools": [FUNCTION], "tool_choice": {"type": "function", "name": "f"}},
        {
            "tools": [FUNCTION],
            "tool_choice": {
                "type": "allowed_tools",
                "mode": "required",
                "tools": [{"type": "function", "name": "f"}],
            },
        },
    ],
)
async def test_every_object_and_event_is_valid(
    http: httpx.AsyncClient, fields: dict[str, Any]
) -> None:
    fields = {"input": "how are you", **fields}
    whole = check_response((await respond(http, **fields)).json())
    streamed = check_events((await respond(http, **fields, stream=True)).text)
    changing = {"id": True, "created_at": True, "completed_at": True, "output": True}
    assert streamed.model_dump(exclude=changing) == whole.model_dump(exclude=changing)
    for one, other in zip(whole.output, streamed.output, strict=True):
        assert one.model_dump(exclude={"id", "call_id"}) == other.model_dump(
            exclude={"id", "call_id"}
        )
    for response in (whole, streamed):
        answer = await http.get(f"{RESPONSES}/{response.id}")
        if fields.get("store") is False:
            assert answer.status_code == 404
        else:
            assert check_response(answer.json()) == response
            page = check_items((await http.get(f"{RESPONSES}/{response.id}/input_items")).json())
            assert page.first_id == page.last_id and not page.has_more


async def test_a_stream_that_fails_is_valid_and_not_kept(
    http: httpx.AsyncClient, seeing: Running
) -> None:
    seeing.engine.chat.fail_next("server_error")
    response = check_events((await respond(http, "a b", stream=True)).text)
    assert response.status == "failed" and response.output_text == "you"
    assert (await http.get(f"{RESPONSES}/{response.id}")).status_code == 404


async def test_a_conversation_that_is_too_long_is_answered_without_its_beginning(
    http: httpx.AsyncClient, seeing: Running
) -> None:
    chat = seeing.engine.chat
    asked: list[dict[str, Any]] = [
        {"role": role, "content": f"{n}"} for n, role in enumerate(["user", "assistant"] * 4)
    ]
    asked.append(
        {"role": "user", "content": [{"type": "input_image", "image_url": data_url(png())}]}
    )
    for stream in (False, True):
        chat.started.clear()
        for _ in range(2):
            chat.fail_next("context_length_exceeded", "expected less", 0, 0)
        answer = await respond(http, asked, truncation="auto", stream=stream)
        told = check_events(answer.text) if stream else check_response(answer.json())
        assert (told.status, told.truncation) == ("completed", "auto")
        assert [len(start.messages) for start in chat.started] == [9, 5, 3]
    # What is left out for one answer is not forgotten.
    listed = (await http.get(f"{RESPONSES}/{told.id}/input_items?limit=100")).json()
    assert len(listed["data"]) == 9


async def test_what_is_too_long_by_itself_is_refused(
    http: httpx.AsyncClient, seeing: Running
) -> None:
    asked = [{"role": role, "content": "a"} for role in ("user", "assistant", "user")]
    for truncation, asks in (("disabled", 1), (None, 1), ("auto", 2)):
        seeing.engine.chat.started.clear()
        for _ in range(asks):
            seeing.engine.chat.fail_next("context_length_exceeded", "expected less", 0, 0)
        answer = await respond(http, asked, truncation=truncation)
        error = answer.json()["error"]
        assert (answer.status_code, error["code"]) == (400, "context_length_exceeded")
        assert (
            error["param"] == ("input[2]" if truncation == "auto" else "input[0]") + ".content[0]"
        )
        assert len(seeing.engine.chat.started) == asks


async def test_without_effort_nothing_is_thought(http: httpx.AsyncClient, seeing: Running) -> None:
    for effort, template in (("none", {"enable_thinking": False}), ("low", {})):
        seeing.engine.chat.started.clear()
        answer = await respond(http, "a", reasoning={"effort": effort})
        (start,) = seeing.engine.chat.started
        assert start.settings.template == template
        assert ("x-lookhear-ignored" in answer.headers) is (not template)
        shown = check_response(answer.json()).reasoning
        assert shown is not None and shown.effort == ("none" if template else None)


async def test_parameters_reach_the_engine(http: httpx.AsyncClient, seeing: Running) -> None:
    answer = await respond(
        http, "x", seed=5, stop=["a", "b"], temperature=0.5, top_p=0.9, top_k=4,
        min_p=0.1, presence_penalty=1, frequency_penalty=-1, repetition_penalty=1.1,
        top_logprobs=2, max_output_tokens=7, parallel_tool_calls=False, cache_salt="s",
        chat_template_kwargs={"enable_thinking": False}, user="me", metadata={"a": "b"},
        tools=[], tool_choice="none", truncation="disabled", service_tier="auto", background=False,
        text={"format": {"type": "text"}, "verbosity": "low"}, reasoning={"effort": "low"},
        include=["reasoning.encrypted_content"], stream_options={"include_obfuscation": False},
        prompt_cache_key="k", safety_identifier="i", max_tool_calls=3, unheard_of=1,
    )  # fmt: skip
    (start,) = seeing.engine.chat.started
    assert start.settings == AnswerSettings(
        model="fake/vision",
        max_tokens=7,
        temperature=0.5,
        top_p=0.9,
        top_k=4,
        min_p=0.1,
        repetition_penalty=1.1,
        presence_penalty=1,
        frequency_penalty=-1,
        seed=5,
        stop=["a", "b"],
        logprobs=2,
        template={"enable_thinking": False},
        cache_salt="s",
        parallel_calls=False,
    )
    ignored = answer.headers["x-lookhear-ignored"]
    assert ignored == "text.verbosity, reasoning, unheard_of, include"


async def test_a_function_that_is_forced_is_called_once(
    http: httpx.AsyncClient, seeing: Running
) -> None:
    one = {"type": "function", "name": "f"}
    some = {"type": "allowed_tools", "mode": "required", "tools": [one]}
    for choice, parallel in ((one, False), (some, True), ("required", True), ("auto", True)):
        answer = await respond(http, "x", tools=[FUNCTION], tool_choice=choice)
        assert check_response(answer.json()).parallel_tool_calls
        assert seeing.engine.chat.started[-1].settings.parallel_calls is parallel


async def test_files_videos_and_recordings(http: httpx.AsyncClient, seeing: Running) -> None:
    stills = ",".join([base64.b64encode(jpeg()).decode()] * 3)
    recording = base64.b64encode(wav(0.5)).decode()
    note = base64.b64encode("a nöte".encode()).decode()
    answer = await respond(
        http,
        [
            said(
                {"type": "input_file", "file_data": f"data:video/jpeg;base64,{stills}"},
                {"type": "input_file", "file_data": data_url(png()), "filename": "a.png"},
                {"type": "input_file", "file_data": recording, "filename": "b.WAV"},
                {"type": "input_audio", "input_audio": {"data": recording, "format": "wav"}},
                {"type": "input_file", "file_data": note, "filename": "note.md"},
                {
                    "type": "input_file",
                    "file_data": f"data:text/plain;base64,{note[:4]}\n{note[4:]}",
                },
            )
        ],
    )
    check_response(answer.json())
    (start,) = seeing.engine.chat.started
    video, picture, heard, again, *notes = start.messages[0].parts
    assert isinstance(video, VideoPart) and isinstance(picture, ImagePart)
    assert heard == again == TextPart("transcribe 0.5 seconds.")
    assert notes == [TextPart("a nöte")] * 2
    details = answer.json()["usage"]["input_tokens_details"]
    assert [details[f"{kind}_tokens"] for kind in ("image", "video", "audio")] == [2, 6, 0]


async def test_thinking_and_cut_answers_go_on(http: httpx.AsyncClient, seeing: Running) -> None:
    thought = await respond(http, "a", **THINKING)
    cut = await respond(http, 'call f {"a": 1}', tools=[FUNCTION], max_output_tokens=1)
    check_response(cut.json())
    await respond(http, "b", previous_response_id=thought.json()["id"])
    *_, start = seeing.engine.chat.started
    assert [message.thinking for message in start.messages] == ["", "let me look", ""]
    incomplete = {"type": "function_call", "call_id": "c", "name": "f", "arguments": '{"a'}
    answer = await respond(
        http,
        [
            said(text("a")),
            {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "?"},
            {**incomplete, "status": "incomplete"},
            said(text("b")),
        ],
    )
    check_response(answer.json())
    *_, start = seeing.engine.chat.started
    assert [message.role for message in start.messages] == ["user", "user"]
    thoughts = [
        {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": each}]}
        for each in ("let me look. ", "It is red.")
    ]
    answered = said({"type": "output_text", "text": "red"}, role="assistant")
    history = [said(text("a")), *thoughts, answered, said(text("b"))]
    check_response((await respond(http, history)).json())
    *_, start = seeing.engine.chat.started
    assert [each.thinking for each in start.messages] == ["", "let me look. It is red.", ""]


async def test_a_call_that_was_cut_off_and_answered_all_the_same(
    http: httpx.AsyncClient, seeing: Running
) -> None:
    """As agents do, that tell the model what was wrong with its call."""
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": '{"a":1,"b":"tw'}
    output = {"type": "function_call_output", "call_id": "c", "output": "no JSON"}
    history = [said(text("a")), {**call, "status": "incomplete"}, output]
    check_response((await respond(http, history)).json())
    [_, asked, told] = seeing.engine.chat.started[-1].messages
    assert [each.arguments for each in asked.calls] == ['{"a": 1}'] and told.call == "c"


async def test_a_client_that_hangs_up_leaves_nothing(seeing: Running) -> None:
    engine = seeing.engine
    engine.be_well()
    engine.chat.hold = True
    async with client(seeing) as http:
        body = {"model": "fake/vision", "input": "a b", "stream": True}
        async with http.stream("POST", RESPONSES, json=body) as answer:
            seen = ""
            async for piece in answer.aiter_text():
                seen += piece
                if '"delta":"you"' in seen:
                    break
            (created, *_) = events_of(seen[: seen.rindex("\n\n") + 2])
            path = f"{RESPONSES}/{created['response']['id']}"
            assert check_response((await http.get(path)).json()).status == "in_progress"
            previous = {"input": "b", "previous_response_id": created["response"]["id"]}
            refused = await http.post(RESPONSES, json=previous)
            assert refused.json()["error"]["code"] == "previous_response_not_found"
        await engine.wait_for(lambda: engine.chat.cancelled == ["answer_0"])
        await engine.wait_for(lambda: not engine.sessions)
        while (await http.get(path)).status_code != 404:
            await asyncio.sleep(0)


async def test_what_one_key_has_no_other_gets() -> None:
    config = GatewayConfig(port=0, api_keys=("one", "two"))
    async with running(config, FakeEngine(sees=True)) as gateway, client(gateway) as http:
        mine, other = ({"authorization": f"Bearer {key}"} for key in ("one", "two"))
        first = (await http.post(RESPONSES, json={"input": "a"}, headers=mine)).json()
        path = f"{RESPONSES}/{first['id']}"
        assert (await http.get(path, headers=mine)).status_code == 200
        assert (await http.get(path, headers=other)).status_code == 404
        assert (await http.delete(path, headers=other)).status_code == 404
        assert (await http.get(f"{path}/input_items", headers=other)).status_code == 404
        for input in ("b", [{"type": "item_reference", "id": first["output"][0]["id"]}]):
            body = {"input": input, "previous_response_id": first["id"]}
            if not isinstance(input, str):
                del body["previous_response_id"]
            answer = await http.post(RESPONSES, json=body, headers=other)
            assert answer.status_code == 400
            assert (await http.post(RESPONSES, json=body, headers=mine)).status_code == 200


async def test_one_of_several_workers_keeps_nothing_and_says_so() -> None:
    engine = FakeEngine(sees=True)
    async with running(engine=engine, siblings=Siblings(2)) as gateway, client(gateway) as http:
        first = check_response((await respond(http, "a")).json())
        assert first.model_dump()["store"] is False
        for fields in ({"store": True}, {"previous_response_id": first.id}):
            answer = await respond(http, "a", **fields)
            error = answer.json()["error"]
            assert (answer.status_code, error["param"]) == (400, next(iter(fields)))
            assert "another of its workers" in error["message"]
        answer = await http.get(f"{RESPONSES}/{first.id}")
        assert answer.status_code == 404
        assert "another of its workers" in answer.json()["error"]["message"]
