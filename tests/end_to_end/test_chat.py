"""Chat completions of a real engine: a Qwen3-VL with random weights, in a process of its own."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal, cast

import httpx
import pydantic
import pytest
import pytest_asyncio
from openai import AsyncOpenAI, LengthFinishReasonError

from lookhear.engine.client.client import EngineClient
from lookhear.engine.messages import AnswerText, Event
from tests.gateway.chat.responding import check_response
from tests.gateway.chatting import URL, ask, client, data_url, frames, image, png, text, user
from tests.gateway.running import Running
from tests.gateway.strict import check_chunks, check_completion

pytestmark = pytest.mark.asyncio(loop_scope="module")

QUOTE, BRACE = "1", "92"  # what ends strings and objects, in this vocabulary
QUESTION = user(image(png(64, 48)), text("what is it"))


@pytest_asyncio.fixture(loop_scope="module")
async def http(seeing: Running) -> AsyncIterator[httpx.AsyncClient]:
    async with client(seeing) as it:
        yield it


def schema(schema: dict[str, Any], **fields: Any) -> dict[str, Any]:
    known = {"name": "s", "schema": schema}
    return {"response_format": {"type": "json_schema", "json_schema": known}, **fields}


async def question(http: httpx.AsyncClient, **fields: Any) -> httpx.Response:
    return await ask(http, QUESTION, **{"model": "vl", "max_tokens": 12, **fields})


async def test_a_picture_is_found_by_the_next_request(http: httpx.AsyncClient) -> None:
    first = check_completion((await question(http)).json())
    again = await question(http, stream=True, stream_options={"include_usage": True})
    chunks = check_chunks(frames(again), usage=True)
    said = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert said == first.choices[0].message.content
    usage, before = chunks[-1].usage, first.usage
    assert usage is not None and usage.prompt_tokens_details is not None and before is not None
    assert usage.prompt_tokens == before.prompt_tokens
    details = usage.prompt_tokens_details
    assert (details.cached_tokens or 0) >= 48
    assert details.model_dump()["image_tokens"] == 48


async def test_choices_and_log_probabilities(http: httpx.AsyncClient) -> None:
    answer = await question(
        http, n=3, temperature=1.0, seed=7, logprobs=True, top_logprobs=2, ignore_eos=True
    )
    choices = check_completion(answer.json()).choices
    assert len({choice.message.content for choice in choices}) > 1
    for choice in choices:
        assert choice.logprobs is not None and choice.logprobs.content is not None
        assert len(choice.logprobs.content) == 12
        assert all(len(token.top_logprobs) == 2 for token in choice.logprobs.content)
    same = await question(http, n=3, temperature=1.0, seed=7, ignore_eos=True)
    texts = [choice.message.content for choice in check_completion(same.json()).choices]
    assert texts == [choice.message.content for choice in choices]


async def test_it_is_told_how_probable_a_prompt_is(http: httpx.AsyncClient) -> None:
    """Of tokens and of their text alike; a token that there is not is refused by name."""

    async def texts(**fields: Any) -> httpx.Response:
        return await http.post("/v1/completions", json={"model": "vl", "logprobs": 2, **fields})

    asked: dict[str, Any] = {"prompt": [40, 41, 42], "max_tokens": 6, "ignore_eos": True}
    written = (await texts(**asked)).json()["choices"][0]
    both = (await texts(**asked, echo=True)).json()["choices"][0]
    assert both["text"].endswith(written["text"])
    told, text = both["logprobs"], both["text"].removesuffix(written["text"])
    assert told["tokens"] == [*text, *written["logprobs"]["tokens"]]  # of a letter each
    nothing, *probable = told["token_logprobs"]
    assert nothing is None and len(probable) == 2 + 6 and max(probable) < 0
    for value, top in zip(probable, told["top_logprobs"][1:], strict=True):
        assert value in top.values() and len(top) >= 2
    read = (await texts(prompt=text, max_tokens=0, echo=True)).json()
    assert read["choices"][0]["text"] == text and read["usage"]["completion_tokens"] == 0
    assert read["choices"][0]["logprobs"]["token_logprobs"][1:] == pytest.approx(probable[:2])
    refused = await texts(prompt=[1, 999_999])
    error = refused.json()["error"]
    assert (refused.status_code, error["param"]) == (400, "prompt")
    assert error["message"].startswith("prompt: expected token ids below ")


@pytest.mark.parametrize(
    ("fields", "param", "code"),
    [
        ({"logit_bias": {"999999": 1}}, "logit_bias", "invalid_value"),
        ({"stop_token_ids": [99999]}, "stop_token_ids", "invalid_value"),
        (schema({"type": "array", "uniqueItems": True}), "response_format", "invalid_value"),
        (schema({}, min_tokens=1), "min_tokens", "invalid_value"),
        (schema({}, ignore_eos=True), "ignore_eos", "invalid_value"),
        ({"messages": [user("a " * 2000)]}, "messages", "context_length_exceeded"),
        (
            {"messages": [user(image(png(2000, 2)))]},
            "messages[0].content[0].image_url.url",
            "invalid_image",
        ),
        (
            {"messages": [user(*(image(png(90, 90, (n, 0, 0)), detail="high") for n in range(9)))]},
            "messages[0].content[",
            "context_length_exceeded",
        ),
    ],
)
async def test_what_the_engine_refuses(
    http: httpx.AsyncClient, fields: dict[str, Any], param: str, code: str
) -> None:
    for stream in (False, True):
        answer = await question(http, stream=stream, **fields)
        error = answer.json()["error"]
        assert answer.status_code == 400
        assert error["code"] == code
        assert error["param"].startswith(param)
    check_completion((await question(http)).json())


@pytest.mark.parametrize(
    ("said", "answer", "pattern"),
    [  # as Claude Code looks for them
        ("a " * 2000, 12, r"prompt is too long[^0-9]*(\d+)\s*tokens?\s*>\s*(\d+)"),
        (
            "a " * 430,
            500,
            r"input length and `max_tokens` exceed context limit: (\d+) \+ (\d+) > (\d+)",
        ),
    ],
)
async def test_what_is_too_long_is_said_in_anthropics_words(
    http: httpx.AsyncClient, said: str, answer: int, pattern: str
) -> None:
    asked = {"model": "vl", "messages": [user(said)], "max_tokens": answer}
    refused = await http.post("/v1/messages", json=asked)
    error = refused.json()["error"]
    assert (refused.status_code, error["type"]) == (400, "invalid_request_error")
    found = re.search(pattern, error["message"])
    assert found is not None, error["message"]
    prompt, *wanted, most = map(int, found.groups())
    assert wanted in ([], [most // 4]) and prompt + sum(wanted) > most
    asked["max_tokens"] = most - prompt
    fits = await http.post("/v1/messages", json=asked)
    assert fits.status_code == (200 if wanted else 400)


async def test_a_message_may_ask_for_more_than_fits(http: httpx.AsyncClient) -> None:
    asked = {"model": "vl", "messages": [user("a")], "max_tokens": 64_000, "temperature": 0}
    answer = await http.post("/v1/messages", json=asked)
    assert answer.status_code == 200, answer.text
    message, card = answer.json(), (await http.get("/v1/models")).json()["data"][0]
    prompt, output = (message["usage"][f"{kind}_tokens"] for kind in ("input", "output"))
    is_full = prompt + message["usage"]["cache_read_input_tokens"] + output == card["max_model_len"]
    assert message["stop_reason"] == ("model_context_window_exceeded" if is_full else "end_turn")


@pytest.mark.parametrize(
    ("said", "answer", "pattern"),
    [  # as frameworks look for them
        ("a " * 2000, 12, r"Input tokens exceed the configured limit of (\d+) .* in (\d+) tokens"),
        ("a", 500, r"This model's maximum context length is (\d+) tokens.* \((\d+) in the mess"),
        ("a", 9999, r"This model's maximum context length is (\d+) tokens.* \((\d+) in the mess"),
    ],
)
@pytest.mark.parametrize("api", ["chat/completions", "responses"])
async def test_what_is_too_long_is_said_in_openais_words(
    http: httpx.AsyncClient, said: str, answer: int, pattern: str, api: str
) -> None:
    input, length = "messages", "max_tokens"
    if api == "responses":
        input, length = "input", "max_output_tokens"
    refused = await http.post(f"/v1/{api}", json={input: [user(said)], length: answer})
    error = refused.json()["error"]
    assert (refused.status_code, error["code"]) == (400, "context_length_exceeded")
    assert error["param"] == (length if answer == 9999 else input)
    found = re.search(pattern, error["message"])
    assert found is not None, error["message"]
    most, prompt = map(int, found.groups())
    fits = await http.post(f"/v1/{api}", json={input: [user(said)], length: most - prompt})
    assert fits.status_code == (200 if prompt < most else 400)


async def test_a_long_conversation_goes_on_without_its_beginning(http: httpx.AsyncClient) -> None:
    past = [{"role": role, "content": "a " * 40} for role in ["user", "assistant"] * 20]
    asked = {"input": [*past, user("what is it")], "max_output_tokens": 8}
    refused = await http.post("/v1/responses", json=asked)
    assert refused.json()["error"]["code"] == "context_length_exceeded"
    answer = await http.post("/v1/responses", json={**asked, "truncation": "auto"})
    response = check_response(answer.json())
    assert response.usage is not None and response.usage.input_tokens < 512


class Form(pydantic.BaseModel):
    """Short enough for any weights."""

    kind: Literal["circle", "square"]
    count: Annotated[int, pydantic.Field(ge=0, le=99)]
    names: Annotated[
        list[Annotated[str, pydantic.Field(max_length=4)]], pydantic.Field(max_length=2)
    ]


async def test_the_openai_package_gets_what_it_has_a_type_for(seeing: Running) -> None:
    async with AsyncOpenAI(api_key="none", base_url=f"{seeing.http}/v1", max_retries=0) as sdk:
        asked: Any = {
            "model": "vl",
            "messages": [QUESTION],
            "response_format": Form,
            "max_completion_tokens": 300,
            "temperature": 1.5,
            "seed": 4,
        }
        whole = await sdk.chat.completions.parse(**asked)
        assert isinstance(whole.choices[0].message.parsed, Form)
        assert whole.choices[0].finish_reason == "stop"
        async with sdk.chat.completions.stream(**asked) as stream:
            streamed = await stream.get_final_completion()
        assert streamed.choices[0].message.parsed == whole.choices[0].message.parsed
        assert streamed.choices[0].message.content == whole.choices[0].message.content


class Book(pydantic.BaseModel):
    """Free texts, in which a toy never comes to an end."""

    title: str
    authors: list[str]
    notes: dict[str, str] | None


async def test_free_texts_end_where_nobody_says_how_long_they_may_be(seeing: Running) -> None:
    asked: Any = {"model": "vl", "messages": [QUESTION], "response_format": Book, "seed": 1}
    async with AsyncOpenAI(api_key="none", base_url=f"{seeing.http}/v1", max_retries=0) as sdk:
        whole = await sdk.chat.completions.parse(**asked, temperature=1.5)
        assert isinstance(whole.choices[0].message.parsed, Book)
        with pytest.raises(LengthFinishReasonError, match="length limit"):
            await sdk.chat.completions.parse(**asked, max_completion_tokens=5)


async def test_any_object_and_several_choices(http: httpx.AsyncClient) -> None:
    answer = await question(
        http,
        n=3,
        temperature=1.0,
        seed=2,
        max_tokens=400,
        response_format={"type": "json_object"},
        logit_bias={QUOTE: 8, BRACE: 8},
    )
    for choice in check_completion(answer.json()).choices:
        assert choice.finish_reason == "stop"
        assert isinstance(json.loads(choice.message.content or ""), dict)


async def test_responses_of_the_openai_package(seeing: Running) -> None:
    """Whole, streamed, with a type of its own, and gone on with: the picture is found again."""
    part: Any = {"type": "input_image", "image_url": data_url(png(64, 48)), "detail": "auto"}
    asked: Any = {"model": "vl", "max_output_tokens": 12}
    seen: Any = [{"role": "user", "content": [part, {"type": "input_text", "text": "what is it"}]}]
    async with AsyncOpenAI(api_key="none", base_url=f"{seeing.http}/v1", max_retries=0) as sdk:
        whole = await sdk.responses.create(input=seen, **asked)
        assert check_response(whole.model_dump()).output_text
        async with sdk.responses.stream(input=seen, **asked) as stream:
            events = [event async for event in stream]
        assert events[-1].type in ("response.completed", "response.incomplete")
        assert events[-1].response.output_text == whole.output_text
        more = await sdk.responses.create(input="and", previous_response_id=whole.id, **asked)
        assert more.usage is not None and more.usage.input_tokens_details.cached_tokens >= 48
        typed = await sdk.responses.parse(
            model="vl", input=seen, text_format=Form, temperature=1.5, extra_body={"seed": 4}
        )
        assert isinstance(typed.output_parsed, Form)


async def test_a_function_that_has_to_be_called_in_a_response(seeing: Running) -> None:
    city = {"type": "string", "enum": ["Rome", "Oslo"]}
    weather: Any = {
        "type": "function",
        "name": "weather",
        "parameters": {"type": "object", "properties": {"city": city}, "required": ["city"]},
    }
    asked: Any = {"model": "vl", "tools": [weather], "parallel_tool_calls": False}
    async with AsyncOpenAI(api_key="none", base_url=f"{seeing.http}/v1", max_retries=0) as sdk:
        first = await sdk.responses.create(input="so", tool_choice="required", **asked)
        (call,) = (item for item in first.output if item.type == "function_call")
        assert json.loads(call.arguments)["city"] in ("Rome", "Oslo")
        output: Any = {"type": "function_call_output", "call_id": call.call_id, "output": "rain"}
        second = await sdk.responses.create(
            input=[output],
            previous_response_id=first.id,
            tool_choice="none",
            max_output_tokens=5,
            **asked,
        )
        assert [item.type for item in second.output] == ["message"]


async def test_the_engine_dies_in_the_middle_of_an_answer(
    http: httpx.AsyncClient, seeing: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Right behind the first piece of text, of answers too large to lie ready by then: in the
    socket to the engine."""
    engine = cast(EngineClient, seeing.engine)
    pid = engine.pids["vl"]
    hand_out = engine._hand_out

    def die(session: str, event: Event) -> None:
        nonlocal pid
        hand_out(session, event)
        if pid is not None and isinstance(event, AnswerText):
            os.kill(pid, signal.SIGKILL)
            pid = None

    monkeypatch.setattr(engine, "_hand_out", die)
    length = {"n": 8, "max_tokens": 400, "ignore_eos": True}
    body = {"messages": [QUESTION], "stream": True, "logprobs": True, "top_logprobs": 20, **length}
    async with http.stream("POST", URL, json=body) as answer:
        lines = [line async for line in answer.aiter_lines() if line]
    assert '"delta"' in lines[0] and '"code":"engine_died"' in lines[-1]
