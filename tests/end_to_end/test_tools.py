"""Tools, called by a model with random weights: only what it is kept to makes it right."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from typing import Any, cast

import httpx
import pytest
import pytest_asyncio
from openai import AsyncOpenAI

from lookhear.engine.client.client import EngineClient
from lookhear.engine.config import EngineConfig
from tests.gateway.chatting import ask, client, frames, user
from tests.gateway.running import Running, running
from tests.gateway.strict import check_chunks, check_completion
from tools.random_checkpoints.qwen3_vl import build_served_qwen3_vl

pytestmark = pytest.mark.asyncio(loop_scope="module")

WEATHER = {
    "type": "object",
    "properties": {
        "city": {"enum": ["Rome", 'say "Oslo"']},
        "days": {"type": "integer", "minimum": 1, "maximum": 9},
    },
    "required": ["city", "days"],
}


def tool(name: str, **fields: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "description": f"the {name}", **fields}}


TOOLS: list[Any] = [
    tool("weather", parameters=WEATHER, strict=True),
    tool("time"),
    tool("stop", parameters={}),
]
NAMES = ["weather", "time", "stop"]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def calling(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Running]:
    """As `seeing`, with room for tools in a vocabulary of bytes."""
    folder = tmp_path_factory.mktemp("vl")
    build_served_qwen3_vl(folder)
    config = json.loads((folder / "config.json").read_text())
    config["text_config"]["max_position_embeddings"] = 4096
    (folder / "config.json").write_text(json.dumps(config))
    served = EngineConfig(
        model=str(folder), served_name="vl", device="cpu", dtype="float32", threads=1,
        kv_cache_gigabytes=0.05,
    )  # fmt: skip
    engine = EngineClient([served])
    await engine.load()
    try:
        async with running(engine=cast(Any, engine)) as it:
            yield it
    finally:
        await engine.close()


@pytest_asyncio.fixture(loop_scope="module")
async def http(calling: Running) -> AsyncIterator[httpx.AsyncClient]:
    async with client(calling) as it:
        yield it


def called(message: Any) -> list[tuple[str, str]]:
    """Names and arguments of its calls."""
    return [(call.function.name, call.function.arguments) for call in message.tool_calls or ()]


def check_call(name: str, arguments: str) -> None:
    assert name in NAMES
    given = json.loads(arguments)
    if name == "time":
        assert given == {}
    if name == "weather":
        assert given["city"] in ("Rome", 'say "Oslo"') and 1 <= given["days"] <= 9


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("parallel", [True, False])
async def test_a_call_that_is_required(http: httpx.AsyncClient, seed: int, parallel: bool) -> None:
    fields = {
        "model": "vl", "tools": TOOLS[:2], "tool_choice": "required", "temperature": 1.0,
        "seed": seed, "parallel_tool_calls": parallel, "max_tokens": 900,
    }  # fmt: skip
    whole = check_completion((await ask(http, user("go"), **fields)).json())
    (choice,) = whole.choices
    assert choice.message.content is None and choice.message.tool_calls
    calls = called(choice.message)
    if choice.finish_reason == "tool_calls":
        assert len(calls) == 1 or parallel
        for name, arguments in calls:
            check_call(name, arguments)
    else:  # it went on calling to the end of its tokens
        assert choice.finish_reason == "length" and parallel
    chunks = check_chunks(frames(await ask(http, user("go"), stream=True, **fields)))
    told: list[list[str]] = []
    for piece in (p for c in chunks for p in c.choices[0].delta.tool_calls or ()):
        assert piece.function is not None
        if piece.id is not None:
            assert piece.index == len(told) and piece.type == "function"
            told.append([piece.function.name or "", ""])
        told[piece.index][1] += piece.function.arguments or ""
    assert [tuple(call) for call in told] == calls
    assert not any(c.choices[0].delta.content for c in chunks)
    assert chunks[-1].choices[0].finish_reason == choice.finish_reason


async def test_the_openai_package_calls_a_named_tool_and_tells_what_came(calling: Running) -> None:
    async with AsyncOpenAI(base_url=f"{calling.http}/v1", api_key="none") as openai:
        messages: list[Any] = [user("what is the weather")]
        named: Any = {"type": "function", "function": {"name": "weather"}}
        asked: Any = {"model": "vl", "tools": TOOLS, "tool_choice": named, "max_tokens": 200}
        first = await openai.chat.completions.create(
            messages=messages, parallel_tool_calls=False, **asked
        )
        (choice,) = first.choices
        assert choice.finish_reason == "tool_calls" and choice.message.tool_calls
        (call,) = choice.message.tool_calls
        assert call.type == "function" and call.function.name == "weather"
        check_call("weather", call.function.arguments)
        messages.append(choice.message)
        messages.append({"role": "tool", "tool_call_id": call.id, "content": '{"rain": true}'})
        again = await openai.chat.completions.create(
            messages=messages,
            model="vl",
            tools=TOOLS,
            max_tokens=8,
        )
        assert again.choices[0].finish_reason in ("length", "stop", "tool_calls")
        assert again.usage is not None and first.usage is not None
        assert again.usage.prompt_tokens > first.usage.prompt_tokens


async def test_a_call_that_is_cut_off_says_so(
    http: httpx.AsyncClient,
) -> None:
    fields = {"model": "vl", "tools": TOOLS[:1], "tool_choice": "required", "max_tokens": 45}
    cut = check_completion((await ask(http, user("go"), **fields)).json())
    (choice,) = cut.choices
    assert choice.finish_reason == "length" and choice.message.tool_calls
    ((name, arguments),) = called(choice.message)
    assert name == "weather" and arguments.startswith("{")
    with pytest.raises(json.JSONDecodeError):
        json.loads(arguments)


async def test_calls_that_are_free_to_come(http: httpx.AsyncClient) -> None:
    """Random weights write text, without a tag in it; with a schema, what they say keeps to it."""

    async def asked(**fields: Any) -> Any:
        body = {"model": "vl", "max_tokens": 60, "temperature": 1.0, "tools": TOOLS, **fields}
        return check_completion((await ask(http, user("go"), **body)).json())

    answer = await asked()
    assert "tool_call" not in (answer.choices[0].message.content or "")
    none = await asked(tool_choice="none")
    assert not none.choices[0].message.tool_calls
    assert answer.usage.prompt_tokens > none.usage.prompt_tokens  # which hears of no tools
    form = {"name": "s", "schema": {"enum": ["yes", "no"]}}
    format = {"type": "json_schema", "json_schema": form}
    both = await asked(tools=TOOLS[:1], response_format=format, max_tokens=200)
    said = both.choices[0].message
    if said.tool_calls:
        check_call("weather", said.tool_calls[0].function.arguments)
    else:
        assert said.content is not None and json.loads(said.content) in ("yes", "no")


@pytest.mark.parametrize(
    ("strict", "status"), [(True, 400), (False, 200)], ids=["strict", "as well as it goes"]
)
async def test_a_schema_that_arguments_cannot_keep_to(
    http: httpx.AsyncClient, strict: bool, status: int
) -> None:
    odd = {"type": "object", "properties": {"a": {"type": "strng"}}}
    tools = [tool("good"), tool("odd", parameters=odd, strict=strict)]
    named = {"type": "function", "function": {"name": "odd"}}
    answer = await ask(http, user("go"), model="vl", tools=tools, tool_choice=named, max_tokens=90)
    assert answer.status_code == status
    if strict:
        error = answer.json()["error"]
        assert error["param"] == "tools[1].function.parameters"
        assert error["message"].startswith(f"{error['param']}: expected a schema")
    else:
        ((name, arguments),) = called(check_completion(answer.json()).choices[0].message)
        assert name == "odd" and arguments.startswith("{")


@pytest.mark.parametrize(
    ("form", "pattern"),
    [
        ({"choice": ["yes", "no / never", 'say "é"\n']}, r'yes|no / never|say "é"\n'),
        ({"regex": "[a-c]{2}/\\d{1,3}/\\/\n\\\\x"}, r"[a-c]{2}/\d{1,3}//\n\\x"),
        ({"regex": "a|bc"}, "a|bc"),
    ],
)
async def test_answers_that_are_a_choice_or_match_a_pattern(
    http: httpx.AsyncClient, form: dict[str, Any], pattern: str
) -> None:
    for seed in range(4):
        fields = {"structured_outputs": form, "temperature": 1.0, "seed": seed, "max_tokens": 900}
        answer = check_completion((await ask(http, user("go"), model="vl", **fields)).json())
        (choice,) = answer.choices
        assert choice.finish_reason == "stop"
        assert re.fullmatch(pattern, choice.message.content or ""), choice.message.content


@pytest.mark.parametrize(
    "form",
    [
        {"choice": []},
        {"choice": [""]},
        {"regex": "("},
        {"regex": "a\\"},
        {"regex": "(?=a)b"},
        {"regex": "a", "choice": ["a"]},
    ],
)
async def test_forms_that_answers_cannot_keep_to(
    http: httpx.AsyncClient, form: dict[str, Any]
) -> None:
    answer = await ask(http, user("go"), model="vl", structured_outputs=form, max_tokens=9)
    error = answer.json()["error"]
    assert answer.status_code == 400 and error["param"].startswith("structured_outputs")
    assert error["message"].startswith(error["param"])
