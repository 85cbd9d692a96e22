"""Chat completions of people who mean no good, or err: a 400 that names the place, and life goes
on."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import struct
import zlib
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import av
import httpx
import pytest
import pytest_asyncio
from hypothesis import given, settings
from hypothesis import strategies as st

from lookhear.gateway.chat.answers import with_seed
from lookhear.gateway.chat.completions.messages import parse_messages
from lookhear.gateway.chat.completions.parameters import parse_parameters
from lookhear.gateway.chat.refusals import BEYOND
from lookhear.gateway.config import GatewayConfig
from lookhear.gateway.fetching.fetcher import Connection, Fetcher
from lookhear.gateway.fetching.pictures import Pictures
from lookhear.gateway.http.errors import ApiError
from lookhear.media.fetching.addresses import Address
from lookhear.media.fetching.urls import HttpUrl
from tests.gateway.chatting import (
    URL,
    ask,
    client,
    data_url,
    image,
    jpeg,
    png,
    text,
    user,
)
from tests.gateway.fake_chat import VISION
from tests.gateway.fake_engine import FakeEngine
from tests.gateway.fetching.test_fetcher import drip, moved, says, serving
from tests.gateway.running import Running, running
from tests.gateway.strict import check_completion

of_server = pytest.mark.asyncio(loop_scope="module")

LIMITS = GatewayConfig(
    port=0,
    fetch_timeout_seconds=60.0,
    max_image_pixels=5_000_000,
    max_request_pixels=8_000_000,
    max_media_bytes=200_000,
    max_pictures=4,
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def strictly() -> AsyncIterator[Running]:
    """Small limits, and a model that cannot see besides."""
    engine = FakeEngine(sees=True)
    engine.models.append(replace(VISION, id="fake/text", abilities=["chat"]))
    async with running(LIMITS, engine) as it:
        yield it


@pytest_asyncio.fixture(loop_scope="module")
async def http(strictly: Running) -> AsyncIterator[httpx.AsyncClient]:
    strictly.engine.be_well()
    async with client(strictly) as it:
        yield it


def chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def bomb() -> bytes:
    """A PNG of a few bytes that wants 10 GB."""
    header = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    data = zlib.compress(bytes(100_000))
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")
    )


def film_of_nothing() -> bytes:
    file = io.BytesIO()
    with av.open(file, "w", format="matroska") as output:
        stream: Any = output.add_stream("libx264", rate=10)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        output.start_encoding()
    return file.getvalue()


def video(data: bytes, kind: str = "video/mp4") -> dict[str, Any]:
    return {"type": "video_url", "video_url": {"url": data_url(data, kind)}}


def recording(data: str) -> dict[str, Any]:
    return {"type": "input_audio", "input_audio": {"data": data, "format": "wav"}}


async def refused(http: httpx.AsyncClient, path: str, *messages: Any, **fields: Any) -> str:
    """The message of the 400 that blames `path`; the same without streaming and with. The next
    request works."""
    told = ""
    for stream in (True, False):
        answer = await ask(http, *messages, stream=stream, **fields)
        assert answer.status_code == 400, answer.text
        error = answer.json()["error"]
        assert error["type"] == "invalid_request_error"
        assert error["param"] == path, error
        assert error["message"].startswith(f"{path}: expected "), error
        assert len(error["message"]) < 500 and error["code"]
        told = error["message"]
    check_completion((await ask(http, user(text("still there?"), image(png())))).json())
    return told


@pytest.mark.parametrize(
    ("part", "at", "words"),
    [
        (image(bomb()), ".image_url.url", "60000 x 60000"),
        (image(jpeg()[:-40]), ".image_url.url", "truncated"),
        (image(data_url(b"just a text")), ".image_url.url", "text/plain"),
        (image(b""), ".image_url.url", "0 bytes"),
        (image(bytes(300_000)), ".image_url.url", "at most 200000 bytes"),
        (image(png(2500, 2100)), ".image_url.url", "5000000 pixels"),
        (image(png(2200, 2200)), ".image_url.url", "at most 4096 tokens"),
        (image("data:image/png;base64,!!!!"), ".image_url.url", "base64"),
        (image("data:image/png,abc"), ".image_url.url", "data URL"),
        (image("http://127.0.0.1/a.png"), ".image_url.url", "public addresses"),
        (image("http://localhost/a.png"), ".image_url.url", "public addresses"),
        (image("http://[::ffff:127.0.0.1]/a.png"), ".image_url.url", "public addresses"),
        (image("http://169.254.169.254/latest"), ".image_url.url", "public addresses"),
        (image("file:///etc/passwd"), ".image_url.url", "local files are off"),
        (image("/etc/passwd"), ".image_url.url", "data:, http or https"),
        (image(png(), detail="huge"), ".image_url.detail", "auto, low or high"),
        ({"type": "image_url", "image_url": "ftp://a.b/c"}, ".image_url", "data:, http or https"),
        ({"type": "image_url"}, ".image_url", "object"),
        ({"type": "image_url", "image_url": {}}, ".image_url.url", "string"),
        (video(b""), ".video_url.url", "0 bytes"),
        (video(film_of_nothing(), "video/x-matroska"), ".video_url.url", "without a frame"),
        (video(png()), ".video_url.url", "PNG"),
        (recording("????"), ".input_audio.data", "base64"),
        (recording(base64.b64encode(b"no sound").decode()), ".input_audio.data", "text/plain"),
        ({"type": "input_audio", "input_audio": "abc"}, ".input_audio", "object"),
        ({"type": "audio_url", "audio_url": {"url": 5}}, ".audio_url.url", "string"),
        ({"type": "input_image", "image_url": "a"}, ".type", "one of text, image_url"),
        ({"type": "file", "file": {}}, ".type", "one of text, image_url"),
        ({"type": ["text"]}, ".type", "one of text"),
        ({}, ".type", "one of text"),
        ({"type": "text"}, ".text", "string"),
        ({"type": "text", "text": "\ud800"}, ".text", "surrogate"),
        (5, "", "object with a type"),
    ],
)
@of_server
async def test_a_part_that_cannot_be_used(
    http: httpx.AsyncClient, part: Any, at: str, words: str
) -> None:
    messages = [user("hello"), user(text("look"), part)]
    assert words in await refused(http, f"messages[1].content[1]{at}", *messages)


CALL_ARGUMENTS = ".tool_calls[0].function.arguments"


def called(call: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def tool(**fields: Any) -> dict[str, Any]:
    return {"tools": [{"type": "function", "function": {"name": "f", **fields}}]}


@pytest.mark.parametrize(
    ("message", "at", "words"),
    [
        ({"role": "tool", "content": "a", "tool_call_id": "b"}, ".tool_call_id", "tool call in"),
        ({"role": "tool", "content": "a"}, ".tool_call_id", "string"),
        ({"role": "function", "content": "a"}, ".role", "tools"),
        ({"role": "robot", "content": "a"}, ".role", "user, assistant or tool"),
        ({"role": "\ud800", "content": "a"}, ".role", '"\\ud800"'),
        ({"content": "a"}, ".role", "null"),
        ({"role": "user"}, ".content", "a string or a list of parts"),
        ({"role": "user", "content": []}, ".content", "at least one part"),
        ({"role": "user", "content": "\udc00"}, ".content", "surrogate"),
        (called({}), ".tool_calls[0].function", "name and arguments"),
        (called({"function": {"name": "f", "arguments": "{a"}}), CALL_ARGUMENTS, "JSON object"),
        (called({"function": {"name": "f", "arguments": "[]"}}), CALL_ARGUMENTS, "JSON object"),
        (called({"function": {"name": "f", "arguments": '{"a":NaN}'}}), CALL_ARGUMENTS, "NaN"),
        (called({"function": {"name": "f", "arguments": "{}"}}), ".tool_calls[0].id", "string"),
        (called({"type": "custom"}), ".tool_calls[0].type", "function"),
        ({**called({}), "role": "user", "tool_calls": 5}, ".tool_calls", "list of tool calls"),
        ({"role": "system", "content": [image(png())]}, ".content[0].type", '"text"'),
        ({"role": "assistant", "content": [image(png())]}, ".content[0].type", '"text"'),
        (
            {"role": "tool", "tool_call_id": "c", "content": [{"type": "video_url"}]},
            ".content[0].type",
            '"text" or "image_url" in a message of the tool',
        ),
        ("hello", "", "an object with role and content"),
    ],
)
@of_server
async def test_a_message_that_cannot_be_used(
    http: httpx.AsyncClient, message: Any, at: str, words: str
) -> None:
    assert words in await refused(http, f"messages[1]{at}", user("hello"), message)


NAMED = {"name": "form"}
NAMED_G = {"type": "function", "function": {"name": "g"}}


def schema_format(**fields: Any) -> dict[str, Any]:
    known = {**NAMED, "schema": {"type": "object"}, **fields}
    known = {name: value for name, value in known.items() if value is not ...}
    return {"response_format": {"type": "json_schema", "json_schema": known}}


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(levels):
        schema = {"items": schema}
    return schema


@pytest.mark.parametrize(
    ("format", "schema"),
    [
        (None, None),
        ({"type": "text"}, None),
        ({"type": "json_object"}, {"type": "object"}),
        (
            {
                "type": "json_schema",
                "json_schema": {
                    **NAMED,
                    "schema": {"enum": ["\u00e9", 1]},
                    "strict": True,
                    "description": "?",
                },
            },
            {"enum": ["\u00e9", 1]},
        ),
    ],
)
def test_response_formats_become_schemas(
    format: dict[str, Any] | None, schema: dict[str, Any] | None
) -> None:
    settings = parse_parameters({"messages": [user("a")], "response_format": format}).settings()
    got = None if settings.schema is None else json.loads(settings.schema)
    assert got == schema


@pytest.mark.parametrize(
    ("form", "schema"),
    [
        ({"json": {"type": "object", "required": ["a"]}}, {"type": "object", "required": ["a"]}),
        ({"json": '{"enum": ["\\u00e9", 1]}'}, {"enum": ["\u00e9", 1]}),
        ({"json_object": True}, {"type": "object"}),
        ({"json_object": False, "choice": ["a"]}, None),
        ({}, None),
    ],
)
def test_json_as_vllm_asks_for_it(form: dict[str, Any], schema: dict[str, Any] | None) -> None:
    body = {"messages": [user("a")], "structured_outputs": form}
    parameters = parse_parameters(body)
    settings = parameters.settings()
    got = None if settings.schema is None else json.loads(settings.schema)
    assert got == schema and parameters.ignored == ()
    at = "response_format" if schema is None else "structured_outputs"
    assert parameters.fields["schema"] == at


@pytest.mark.parametrize(
    ("fields", "param", "words"),
    [
        ({"messages": ...}, "messages", "nothing"),
        ({"messages": []}, "messages", "at least one"),
        ({"messages": "hello"}, "messages", "list"),
        ({"messages": [None]}, "messages[0]", "content, got null"),
        ({"model": 5}, "model", "string"),
        ({"n": 0}, "n", "0"),
        ({"n": 9}, "n", "8"),
        ({"n": True}, "n", "true"),
        ({"temperature": 2.5}, "temperature", "2"),
        ({"temperature": "hot"}, "temperature", 'a number, got "hot"'),
        ({"n": 1.5}, "n", "a whole number, got 1.5"),
        ({"stop": {}}, "stop", "a text or a list of texts, got {}"),
        ({"top_p": -0.1}, "top_p", "0"),
        ({"top_k": -2}, "top_k", "-1"),
        ({"top_k": 1.5}, "top_k", "1.5"),
        ({"min_p": 1.1}, "min_p", "1"),
        ({"presence_penalty": 3}, "presence_penalty", "2"),
        ({"frequency_penalty": -3}, "frequency_penalty", "-2"),
        ({"repetition_penalty": 0}, "repetition_penalty", "0.01"),
        ({"logit_bias": {"5": 101}}, "logit_bias[5]", "100"),
        ({"logit_bias": {"a": 1}}, "logit_bias", "token ids"),
        ({"logit_bias": {"99999999999999999999": 1}}, "logit_bias", "token ids"),
        ({"logit_bias": [1]}, "logit_bias", "object"),
        ({"logit_bias": {str(i): 1 for i in range(1025)}}, "logit_bias", "at most 1024"),
        ({"logprobs": 3}, "logprobs", "boolean"),
        ({"top_logprobs": 3}, "top_logprobs", "logprobs true"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs", "20"),
        ({"max_tokens": 0}, "max_tokens", "0"),
        ({"max_completion_tokens": -1}, "max_completion_tokens", "-1"),
        ({"max_tokens": 2, "min_tokens": 3}, "min_tokens", "at most the 2"),
        ({"seed": 2**63}, "seed", str(2**63 - 1)[:5]),
        ({"stop": ["a"] * 17}, "stop", "16"),
        ({"stop": ""}, "stop", "not empty"),
        ({"stop": [5]}, "stop[0]", "string"),
        ({"stop_token_ids": [-1]}, "stop_token_ids[0]", "0"),
        ({"stop_token_ids": list(range(1025))}, "stop_token_ids", "at most 1024"),
        ({"chat_template_kwargs": 5}, "chat_template_kwargs", "object"),
        ({"chat_template_kwargs": {"a": 2**64}}, "chat_template_kwargs", "64 bits"),
        ({"chat_template_kwargs": {"a": "\ud800"}}, "chat_template_kwargs", "surrogate"),
        ({"chat_template_kwargs": {"messages": []}}, "chat_template_kwargs", "variables"),
        ({"tools": [{"type": "function"}]}, "tools[0].function", "a value"),
        ({"tools": [{"type": "custom"}]}, "tools[0].type", "'function'"),
        (tool(name="two words"), "tools[0].function.name", "letters"),
        (tool(parameters=[]), "tools[0].function.parameters", "an object"),
        (tool(parameters={"type": "string"}), "tools[0].function.parameters", '"object"'),
        (tool(parameters={"properties": []}), "tools[0].function.parameters", "properties"),
        (tool(parameters={"properties": {"a": 5}}), "tools[0].function.parameters", "properties"),
        (tool(parameters={"required": [5]}), "tools[0].function.parameters", "required"),
        (tool(parameters=nested(70)), "tools[0].function.parameters", "64 levels"),
        ({"tools": [*tool()["tools"], *tool()["tools"]]}, "tools", "twice"),
        ({"tools": tool()["tools"] * 129}, "tools", "128"),
        ({**tool(), "tool_choice": "any"}, "tool_choice", "auto"),
        ({**tool(), "tool_choice": NAMED_G}, "tool_choice", 'one of the tools (f), got "g"'),
        ({"tool_choice": NAMED_G}, "tool_choice", "no tool"),
        ({"tool_choice": "required"}, "tool_choice", "without tools"),
        ({"functions": [{}]}, "functions", "functions"),
        ({"response_format": "json_object"}, "response_format", "an object"),
        ({"response_format": {"type": "json"}}, "response_format.type", "'json_schema'"),
        ({"response_format": {"type": "json_schema"}}, "response_format", "json_schema with it"),
        (
            {"response_format": {"type": "json_object", "json_schema": {**NAMED, "schema": {}}}},
            "response_format",
            "no json_schema with it",
        ),
        (schema_format(name="two words"), "response_format.json_schema.name", "letters"),
        (schema_format(schema=[]), "response_format.json_schema.schema", "an object"),
        (schema_format(schema=...), "response_format.json_schema.schema", "a value"),
        (schema_format(strict=1), "response_format.json_schema.strict", "boolean"),
        (schema_format(schema=nested(70)), "response_format.json_schema.schema", "64 levels"),
        (schema_format(schema=nested(900)), "response_format.json_schema.schema", "64 levels"),
        (
            schema_format(schema={"const": "x" * 70_000}),
            "response_format.json_schema.schema",
            "at most 65536 bytes of JSON, got 70012",
        ),
        (
            schema_format(schema={"const": float("nan")}),
            "response_format.json_schema.schema",
            "not finite",
        ),
        (
            schema_format(schema={"const": ["\ud800"]}),
            "response_format.json_schema.schema",
            "surrogate",
        ),
        ({"modalities": ["text", "audio"]}, "modalities", "text only"),
        (
            {"mm_processor_kwargs": {"use_audio_in_video": True}},
            "mm_processor_kwargs.use_audio_in_video",
            "videos are seen and not heard",
        ),
        ({"audio": {"voice": "alloy"}}, "audio", "text only"),
        ({"prediction": {"type": "content"}}, "prediction", "predicted"),
        ({"guided_json": {}}, "guided_json", "by response_format"),
        ({"structured_outputs": {"json": "{"}}, "structured_outputs.json", "a JSON Schema"),
        ({"structured_outputs": {"json": "5"}}, "structured_outputs.json", "an object"),
        ({"structured_outputs": {"json": nested(70)}}, "structured_outputs.json", "64 levels"),
        (
            {"structured_outputs": {"json": {}, "regex": "a"}},
            "structured_outputs",
            "got regex and json",
        ),
        ({"structured_outputs": {"grammar": "root"}}, "structured_outputs.grammar", "regex"),
    ],
)
def test_parameters_that_cannot_be_used(fields: dict[str, Any], param: str, words: str) -> None:
    body = {"messages": [user("a")], **fields}
    body = {key: value for key, value in body.items() if value != ...}
    with pytest.raises(ApiError) as caught:
        parse_parameters(body)
        parse_messages(body.get("messages"), 4)
    error = caught.value
    assert (error.status, error.param) == (400, param)
    assert error.message.startswith(f"{param}: expected ")
    assert words in error.message


@of_server
async def test_stream_options_without_a_stream(http: httpx.AsyncClient) -> None:
    answer = await ask(http, user("a"), stream_options={"include_usage": True})
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "stream_options")


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 100_000])
@of_server
async def test_bodies_that_are_no_request(http: httpx.AsyncClient, body: bytes) -> None:
    answer = await http.post(URL, content=body)
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["message"].startswith("body: expected ")


async def test_bodies_that_are_too_large() -> None:
    config = GatewayConfig(port=0, max_upload_bytes=10_000)
    async with running(config, FakeEngine(sees=True)) as gateway, client(gateway) as http:
        answer = await ask(http, user("a" * 20_000))
        assert answer.status_code == 413
        assert answer.json()["error"]["code"] == "request_too_large"
        check_completion((await ask(http, user("a"))).json())


async def test_json_that_would_cost_more_than_it_weighs() -> None:
    config = GatewayConfig(port=0, max_json_bytes=100_000)
    async with running(config, FakeEngine(sees=True)) as gateway, client(gateway) as http:
        wasteful: list[Any] = [[[]] * 300_000, "\n" * 100_000, ["a"] * 100_000]
        for extra in wasteful:
            answer = await ask(http, user("a"), extra=extra)
            assert answer.status_code == 413
            problem = answer.json()["error"]
            assert problem["code"] == "request_too_large" and problem["param"] == "body"
            assert problem["message"].startswith("body: expected at most ")
        picture = image(png() + bytes(300_000))  # what is behind its end is no picture's
        check_completion((await ask(http, user(picture))).json())


@of_server
async def test_a_model_that_cannot_see(http: httpx.AsyncClient) -> None:
    for part, noun in ((image(png()), "images"), (video(b""), "videos")):
        parts = [text("a"), part]
        told = await refused(http, "messages[0].content[1]", user(*parts), model="fake/text")
        assert f"fake/text takes no {noun}" in told
    answer = await ask(http, user("only text"), model="fake/text")
    assert check_completion(answer.json()).choices[0].message.content == "you said only text"


async def test_recordings_where_nothing_transcribes() -> None:
    engine = FakeEngine(sees=True)
    engine.models = [VISION]
    async with running(engine=engine) as gateway, client(gateway) as http:
        told = await refused(http, "messages[0].content[0]", user(recording("AAAA")))
        assert "fake/vision does not hear" in told and "no served model transcribes" in told


@of_server
async def test_too_many_pictures_and_too_large_together(http: httpx.AsyncClient) -> None:
    pictures = [image(png(8, 8, (shade, 0, 0))) for shade in range(5)]
    told = await refused(http, "messages[0].content[4]", user(*pictures))
    assert "at most 4 images" in told
    large = [image(png(2000, 2100, (0, shade, 0))) for shade in range(2)]
    answer = await ask(http, user(*large))  # either of them may be the last
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (400, "pictures_too_large")
    assert error["param"].startswith("messages[0].content[")
    assert "at most 8000000 pixels together" in error["message"]


def elsewhere(strictly: Running, limits: GatewayConfig, port: int, **addresses: str) -> Pictures:
    """Pictures of a world in which names lead to these addresses, and they to a server of ours."""

    async def resolve(host: str, _: int) -> list[str]:
        return [addresses[host.partition(".")[0]]]

    async def connect(_: Address, __: HttpUrl) -> Connection:
        return await asyncio.open_connection("127.0.0.1", port)

    services = strictly.services
    fetcher = Fetcher(services.in_thread, resolve=resolve, connect=connect)
    return Pictures(limits, fetcher, services.decoders.run)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (says(moved("http://127.0.0.1/secret")), "public addresses"),
        (says(moved("http://inner.test/secret")), "public addresses"),
        (says(moved("file:///etc/passwd")), "http or https"),
        (says(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"), "404"),
        (says(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc"), "complete"),
        (says(b"HTTP/1.1 200 OK\r\nContent-Length: 999999999\r\n\r\n"), "at most 200000 bytes"),
        (says(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"), "text/plain"),
        (drip, "within 0.3 s"),
    ],
)
@of_server
async def test_servers_that_mean_no_good(
    http: httpx.AsyncClient, strictly: Running, answer: Any, words: str
) -> None:
    own = strictly.services.pictures
    limits = replace(LIMITS, fetch_timeout_seconds=0.3) if answer is drip else LIMITS
    async with serving(answer) as port:
        world = elsewhere(strictly, limits, port, media="8.8.8.8", inner="10.0.0.7")
        strictly.services.pictures = world
        try:
            told = await refused(
                http, "messages[0].content[0].image_url.url", user(image("http://media.test/a"))
            )
        finally:
            strictly.services.pictures = own
    assert words in told
    assert "10.0.0.7" not in told


@of_server
async def test_what_the_engine_refuses(http: httpx.AsyncClient, strictly: Running) -> None:
    chat = strictly.engine.chat
    for code, message, param, status in (
        ("invalid_logit_bias", "logit_bias[7]: expected token ids below 5", "logit_bias", 400),
        ("invalid_value", "stop_tokens: expected token ids below 5", "stop_token_ids", 400),
        ("context_length_exceeded", "expected at most 5 tokens, got 6", "messages", 400),
        ("context_length_exceeded", "max_tokens: expected 5", "max_completion_tokens", 400),
        ("server_error", "stop: it broke", None, 500),
        ("too_many_answers", "all are taken", None, 503),
    ):
        chat.fail_next(code, message)
        answer = await ask(http, user("a"))
        error = answer.json()["error"]
        assert (answer.status_code, error["param"], error["code"]) == (status, param, code)
        assert status >= 500 or error["message"].startswith(param or message) or param == "messages"
    check_completion((await ask(http, user("a"))).json())


@of_server
async def test_a_length_is_named_as_the_client_named_it(
    http: httpx.AsyncClient, strictly: Running
) -> None:
    for asked, named in (
        ({"max_tokens": 9}, "max_tokens"),
        ({"max_completion_tokens": 9}, "max_completion_tokens"),
        ({"max_completion_tokens": 9, "max_tokens": 8}, "max_completion_tokens"),
    ):
        strictly.engine.chat.fail_next("context_length_exceeded", "max_tokens: expected 5")
        error = (await ask(http, user("a"), **asked)).json()["error"]
        told = f"{named}: expected 5. {BEYOND}"
        assert (error["param"], error["message"]) == (named, told)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
NAMES = st.sampled_from(
    ["model", "n", "stop", "seed", "logit_bias", "stream_options", "chat_template_kwargs", "tools"]
    + ["tool_choice", "parallel_tool_calls"]
)
PARTS = st.dictionaries(
    st.sampled_from(["type", "text", "image_url", "input_audio", "url"]),
    JSON | st.sampled_from(["text", "image_url", "input_audio"]),
)
MESSAGES = st.fixed_dictionaries(
    {"role": JSON | st.sampled_from(["user", "system"]), "content": JSON | st.lists(PARTS)}
)


@settings(deadline=None)
@given(st.dictionaries(NAMES, JSON), JSON | st.lists(MESSAGES, max_size=3))
def test_any_json_is_taken_or_refused(body: dict[str, Any], messages: Any) -> None:
    for parse in (lambda: parse_parameters(body), lambda: parse_messages(messages, 4)):
        try:
            parse()
        except ApiError as error:
            assert error.status == 400 and error.param
            assert error.message.startswith(error.param)


@settings(deadline=None)
@given(st.integers(-(2**63), 2**63 - 1), st.integers(0, 7))
def test_seeds_of_choices_fit(seed: int, choice: int) -> None:
    assert -(2**63) <= with_seed(seed, choice) < 2**63
    assert with_seed(seed, 0) == seed
