"""Responses of people who mean no good, or err: a 400 that names the place, and life goes on."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio
from hypothesis import given, settings
from hypothesis import strategies as st

from lookhear.gateway.chat.responses.dialect import Responses
from lookhear.gateway.chat.responses.items import Item, Json, item
from lookhear.gateway.chat.responses.store import Store
from lookhear.gateway.http.errors import ApiError
from lookhear.gateway.telemetry.ids import Ids
from tests.gateway.chat.responding import RESPONSES, check_response, respond, said, text
from tests.gateway.chat.test_bad_input import bomb
from tests.gateway.chatting import data_url, each, png
from tests.gateway.running import Running

of_server = pytest.mark.asyncio(loop_scope="module")

CALL = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "c", "output": "x"}


@pytest_asyncio.fixture(loop_scope="module")
async def http(seeing: Running) -> AsyncIterator[httpx.AsyncClient]:
    async for it in each(seeing):
        yield it


def image(url: str, **fields: Any) -> dict[str, Any]:
    return {"type": "input_image", "image_url": url, **fields}


def file(data: str, **fields: Any) -> dict[str, Any]:
    return {"type": "input_file", "file_data": data, **fields}


def tool(**fields: Any) -> dict[str, Any]:
    return {"tools": [{"type": "function", "name": "f", **fields}]}


def namespace(description: object) -> dict[str, Any]:
    group = {"type": "namespace", "name": "n", "description": description}
    return {"tools": [{**group, "tools": tool()["tools"]}]}


@of_server
@pytest.mark.parametrize(
    ("input", "path", "words"),
    [
        (..., "input", "nothing"),
        (5, "input", "a list of items"),
        ([], "input", "at least one item"),
        (["a"], "input[0]", "an item"),
        ([{"type": "web_search_call", "id": "w"}], "input[0].type", "web_search_call"),
        ([{"role": "tool", "content": "a"}], "input[0].role", "assistant"),
        ([{"role": "user"}], "input[0].content", "list of parts"),
        ([said()], "input[0].content", "at least one part"),
        ([said({"type": "text", "text": "a"})], "input[0].content[0].type", "input_text"),
        ([said({"type": "input_text"})], "input[0].content[0].text", "a string"),
        ([said(text("\ud800"))], "input[0].content[0].text", "surrogate"),
        ([said(image(""))], "input[0].content[0].image_url", "data:, http or https"),
        ([said(image("ftp://a/b"))], "input[0].content[0].image_url", "data:, http or https"),
        ([said(image("http://127.0.0.1/a"))], "input[0].content[0].image_url", "public addresses"),
        ([said(image(data_url(bomb())))], "input[0].content[0].image_url", "60000 x 60000"),
        ([said(image("data:,", detail="huge"))], "input[0].content[0].detail", "original"),
        ([said(image("data:,", detail=5))], "input[0].content[0].detail", "a string"),
        ([said({"type": "input_image"})], "input[0].content[0].image_url", "a string"),
        ([said({"type": "input_image", "file_id": "f"})], "input[0].content[0].file_id", "stored"),
        ([said({"type": "input_file", "file_id": "f"})], "input[0].content[0].file_id", "stored"),
        ([said({"type": "input_file"})], "input[0].content[0].file_url", "a string"),
        ([said(file("AAAA"))], "input[0].content[0].file_data", "an image, a video"),
        ([said(file("AAAA", filename="a.pdf"))], "input[0].content[0].file_data", "got \"a.pdf\""),
        ([said(file("data:application/pdf;base64,AA"))], "input[0].content[0].file_data", "/pdf"),
        ([said(file("??", filename="a.txt"))], "input[0].content[0].file_data", "base64"),
        ([said(file("/w==", filename="a.txt"))], "input[0].content[0].file_data", "UTF-8"),
        ([said(file("AAAA", filename="a.png"))], "input[0].content[0].file_data", "unknown data"),
        ([said({"type": "input_audio"})], "input[0].content[0].input_audio", "data and format"),
        (
            [said({"type": "input_audio", "input_audio": {"data": "?"}})],
            "input[0].content[0].input_audio.data",
            "base64",
        ),
        ([said(image("data:,"), role="system")], "input[0].content[0].type", "of the system"),
        (
            [{"role": "assistant", "content": [image("data:,")]}],
            "input[0].content[0].type",
            "output_text",
        ),
        ([{**CALL, "name": 5}], "input[0].name", "a string"),
        ([{**CALL, "arguments": "[]"}], "input[0].arguments", "a JSON object"),
        ([{**CALL, "arguments": "{a"}], "input[0].arguments", "a JSON object"),
        ([OUTPUT], "input[0].call_id", "function_call before"),
        ([CALL, {**OUTPUT, "call_id": "d"}], "input[1].call_id", "function_call before"),
        ([CALL, {**OUTPUT, "output": None}], "input[1].output", "list of parts"),
        (
            [CALL, {**OUTPUT, "output": [image("ftp://a/b")]}],
            "input[1].output[0].image_url",
            "data:, http or https",
        ),
        (
            [CALL, {**OUTPUT, "output": [file("AAAA", filename="a.wav")]}],
            "input[1].output[0]",
            "texts and images in an output of a function, got a recording",
        ),
        ([{"type": "item_reference", "id": "msg_none"}], "input[0].id", "kept"),
        ([{"id": "msg_none"}], "input[0].id", "kept"),
    ],
)  # fmt: skip
async def test_items_that_cannot_be_used(
    http: httpx.AsyncClient, input: Any, path: str, words: str
) -> None:
    for stream in (True, False):
        answer = await respond(http, input, stream=stream)
        assert answer.status_code == 400, answer.text
        error = answer.json()["error"]
        assert error["type"] == "invalid_request_error" and error["code"]
        assert error["param"] == path, error
        assert error["message"].startswith(f"{path}: expected ") and words in error["message"]
        assert len(error["message"]) < 500
    check_response((await respond(http, "still there?")).json())


@of_server
@pytest.mark.parametrize(
    ("fields", "path", "words"),
    [
        ({"background": True}, "background", "while its request lasts"),
        ({"conversation": "conv_1"}, "conversation", "previous_response_id"),
        ({"prompt": {"id": "p"}}, "prompt", "no prompts"),
        ({"truncation": "beginning"}, "truncation", "'auto' or 'disabled'"),
        ({"context_management": [{"type": "compaction"}]}, "context_management", "compacted"),
        ({"moderation": {"model": "m"}}, "moderation", "moderated"),
        (namespace("\ud800"), "tools[0].description", "valid Unicode"),
        (namespace(5), "tools[0].description", "a string"),
        ({"messages": []}, "messages", "input"),
        ({"max_tokens": 5}, "max_tokens", "max_output_tokens"),
        ({"response_format": {"type": "text"}}, "response_format", "text.format"),
        ({"n": 2}, "n", "one answer"),
        ({"max_output_tokens": 0}, "max_output_tokens", "1"),
        ({"temperature": 3}, "temperature", "2"),
        ({"stream": "yes"}, "stream", "boolean"),
        ({"store": 1}, "store", "boolean"),
        ({"include": ["everything"]}, "include[0]", "everything"),
        ({"top_logprobs": 21}, "top_logprobs", "20"),
        ({"metadata": {"a": 5}}, "metadata.a", "a string"),
        ({"metadata": {str(n): "" for n in range(17)}}, "metadata", "16 pairs"),
        ({"metadata": {"a": "b" * 513}}, "metadata", "512"),
        ({"previous_response_id": "resp_none"}, "previous_response_id", "kept here"),
        ({"text": {"format": {"type": "yaml"}}}, "text.format.type", "json_schema"),
        ({"text": {"format": {"type": "json_schema"}}}, "text.format", "a schema"),
        (
            {"text": {"format": {"type": "json_schema", "name": "a b", "schema": {}}}},
            "text.format.name",
            "letters",
        ),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type", "web_search"),
        ({"tools": [{"type": "mcp", "server_label": "m"}]}, "tools[0].type", "mcp"),
        ({"tools": [{"type": "function"}]}, "tools[0].name", "a value"),
        (tool(parameters={"type": "string"}), "tools[0].parameters", '"object"'),
        ({"tools": tool()["tools"] * 2}, "tools", "twice"),
        ({"tool_choice": {"type": "file_search"}}, "tool_choice", "names a function"),
        ({"tool_choice": "required"}, "tool_choice", "without tools"),
        ({**tool(), "tool_choice": {"type": "function", "name": "g"}}, "tool_choice", "(f)"),
    ],
)
async def test_fields_that_cannot_be_used(
    http: httpx.AsyncClient, fields: dict[str, Any], path: str, words: str
) -> None:
    answer = await respond(http, "a", **fields)
    assert answer.status_code == 400, answer.text
    error = answer.json()["error"]
    assert error["param"] == path and error["code"], error
    assert error["message"].startswith(f"{path}: ") and words in error["message"]
    check_response((await respond(http, "still there?")).json())


@of_server
async def test_what_the_engine_refuses_is_named_as_this_wire_does(
    http: httpx.AsyncClient, seeing: Running
) -> None:
    for told, path in (
        ("tools[0].function.parameters: expected x", "tools[0].parameters"),
        ("schema: expected x", "text.format"),
        ("max_tokens: expected x", "max_output_tokens"),
        ("template: expected x", "chat_template_kwargs"),
    ):
        seeing.engine.chat.fail_next("invalid_value", told)
        error = (await respond(http, "a")).json()["error"]
        assert (error["param"], error["message"]) == (path, f"{path}: expected x")
    seeing.engine.chat.fail_next("invalid_value", "tools[0].function.parameters: expected x")
    beside = [{"type": "web_search"}, *tool()["tools"]]
    error = (await respond(http, "a", tools=beside)).json()["error"]
    assert error["param"] == "tools[1].parameters"


@of_server
async def test_a_picture_of_a_response_before_is_named_by_its_item(
    http: httpx.AsyncClient, seeing: Running
) -> None:
    first = (await respond(http, [said(image(data_url(png())))])).json()
    listed = (await http.get(f"{RESPONSES}/{first['id']}/input_items")).json()
    seeing.engine.chat.fail_next("invalid_image", "expected x", 0, 0)
    error = (await respond(http, "b", previous_response_id=first["id"])).json()["error"]
    assert error["param"] == f"{listed['data'][0]['id']}.content[0].image_url"


@of_server
@pytest.mark.parametrize(
    ("query", "param"),
    [("limit=0", "limit"), ("limit=x", "limit"), ("limit=101", "limit"), ("order=up", "order"),
     ("after=msg_none", "after")],
)  # fmt: skip
async def test_pages_that_there_are_not(http: httpx.AsyncClient, query: str, param: str) -> None:
    first = (await respond(http, "a")).json()
    answer = await http.get(f"{RESPONSES}/{first['id']}/input_items?{query}")
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)
    answer = await http.get(f"{RESPONSES}/{first['id']}?stream=true")
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "stream")
    assert (await http.get(f"{RESPONSES}/resp_none/input_items")).status_code == 404


# --- anything at all -----------------------------------------------------------------------------

LEAVES = st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.just("\ud800")
KINDS = st.sampled_from(
    ["message", "function_call", "function_call_output", "reasoning", "item_reference"]
    + ["input_text", "input_image", "input_file", "input_audio", "output_text", "refusal"]
    + ["function", "namespace", "web_search"]
    + ["reasoning_text", "user", "assistant", "system", "incomplete", "data:text/plain;base64,YQ=="]
)
NAMES = st.sampled_from(
    ["type", "role", "content", "text", "image_url", "file_data", "file_url", "filename", "detail"]
    + ["file_id", "input_audio", "data", "format", "call_id", "name", "arguments", "output", "id"]
    + ["status", "summary", "refusal", "tools", "parameters", "namespace"]
)
JSON = st.recursive(
    LEAVES | KINDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=6),
    max_leaves=12,
)
FIELDS = st.sampled_from(
    ["instructions", "text", "tools", "tool_choice", "include", "metadata", "store", "reasoning"]
)


@settings(deadline=None)
@given(st.dictionaries(FIELDS, JSON, max_size=2), JSON)
def test_anything_is_a_question_or_a_refusal_that_names_its_place(
    fields: dict[str, Any], input: Any
) -> None:
    dialect = Responses(Store(lambda: 0.0), Ids(), lambda: 0.0)
    try:
        asked = dialect.parse({**fields, "input": input}, 4, "")
    except ApiError as error:
        assert error.status == 400 and error.code and error.param
        error.message.encode()
        return
    for line in asked.lines:
        assert len(line.parts) == len(line.paths)
        assert line.parts or line.calls


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["begin", "complete", "abandon", "delete", "wait"]),
            st.integers(0, 3),  # whose
            st.integers(0, 4),  # gone on with
            st.integers(0, 900),  # characters
        ),
        max_size=40,
    )
)
def test_a_store_is_bounded_and_its_parts_are_kept_as_long_as_somebody_has_them(
    steps: list[tuple[str, int, int, int]],
) -> None:
    now, ids = 0.0, Ids()
    store = Store(lambda: now, most_responses=5, most_bytes=20_000, most_seconds=10.0)
    seen: dict[str, list[tuple[str, tuple[Item, ...]]]] = {}
    for what, whose, place, size in steps:
        owner = str(whose)
        mine = seen.setdefault(owner, [])
        id, before = mine[-1 - place] if place < len(mine) else ("", ())
        if what == "wait":
            now += 3.0
        elif what == "begin":
            items = (*before, item({"id": ids("msg"), "text": "x" * size}))
            response: Json = {"id": ids("resp"), "output": []}
            if store.add(owner, response, items):
                mine.append((response["id"], items))
        elif what == "complete" and id:
            kept = store.get(id, owner)
            if kept is None or kept.output is None:
                store.complete({"id": id, "output": [{"id": ids("msg"), "text": "y" * size}]})
        elif what == "abandon" and id:
            store.abandon(id)
        elif what == "delete" and id:
            was_there = store.get(id, owner) is not None
            assert store.delete(id, owner) is was_there
        there = [
            (kept, owner)
            for owner, known in seen.items()
            for id, _ in known
            if (kept := store.get(id, owner)) is not None
        ]
        assert len(store) <= 5 and store.size <= 20_000
        parts = {one.id: (one, owner) for kept, owner in there for one in kept.items}
        for part, owner in parts.values():
            assert store.item(part.id, owner) is part
            assert store.item(part.id, "nobody") is None
    now += 11.0
    store.add("last", {"id": "resp_last", "output": []}, [])
    assert len(store) == 1 and store.get("resp_last", "last") is not None
    assert store.delete("resp_last", "last") and store.size == 0


def test_one_owner_cannot_push_out_what_another_has() -> None:
    ids = Ids()
    store = Store(lambda: 0.0, most_bytes=20_000)
    small: Json = {"id": ids("resp"), "output": []}
    assert store.add("a", small, [])
    for _ in range(50):
        store.add(
            "b", {"id": ids("resp"), "output": []}, [item({"id": ids("msg"), "t": "x" * 900})]
        )
    assert store.get(small["id"], "a") is not None
    assert len(store) > 5
    huge: Json = {"id": ids("resp"), "output": []}
    assert not store.add("c", huge, [item({"id": ids("msg"), "t": "x" * 30_000})])
    assert store.get(small["id"], "a") is not None


def test_many_small_responses_push_out_no_large_ones_of_another() -> None:
    ids = Ids()
    store = Store(lambda: 0.0, most_responses=8)
    large: list[Json] = [{"id": ids("resp"), "output": []} for _ in range(3)]
    for response in large:
        store.add("a", response, [item({"id": ids("msg"), "t": "x" * 9000})])
    for _ in range(50):
        assert store.add("b", {"id": ids("resp"), "output": []}, [])
    assert all(store.get(response["id"], "a") is not None for response in large)
    assert len(store) == 8


def test_what_responses_point_at_takes_room_in_each() -> None:
    ids = Ids()
    store = Store(lambda: 0.0)
    items = [item({"id": ids("msg")}) for _ in range(1000)]
    store.add("a", {"id": ids("resp"), "output": []}, items)
    before = store.size
    store.add("a", {"id": ids("resp"), "output": []}, items)
    assert store.size - before >= 8 * len(items)


def test_json_of_a_body_is_not_base64_of_it() -> None:
    """A text file is told from its bytes, not from what it looks like."""
    dialect = Responses(None, Ids(), lambda: 0.0)
    told = base64.b64encode(json.dumps({"a": 1}).encode()).decode()
    part = {"type": "input_file", "file_data": told, "filename": "a.json"}
    (line,) = dialect.parse({"input": [said(part)]}, 4, "").lines
    assert getattr(line.parts[0], "text", None) == '{"a": 1}'
