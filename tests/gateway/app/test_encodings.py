"""Bodies that come compressed."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.types import Message

from lookhear.gateway.app import encodings
from lookhear.gateway.app.encodings import EncodedBodies
from lookhear.gateway.config import GatewayConfig
from lookhear.gateway.http.errors import ApiError
from tests.gateway.chatting import URL, client, user
from tests.gateway.fake_engine import FakeEngine
from tests.gateway.files.test_http import wav
from tests.gateway.running import Running, running

pytestmark = pytest.mark.asyncio(loop_scope="module")

ASKED = json.dumps({"messages": [user("hello")]}).encode()
LIMIT = 1_000_000


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def small() -> AsyncIterator[Running]:
    config = GatewayConfig(port=0, max_upload_bytes=LIMIT, max_bodies_bytes=3 * LIMIT)
    async with running(config, FakeEngine(sees=True)) as it:
        yield it


@pytest_asyncio.fixture(loop_scope="module")
async def http(small: Running) -> AsyncIterator[httpx.AsyncClient]:
    async with client(small) as it:
        yield it


async def post(http: httpx.AsyncClient, body: bytes, encoding: str = "gzip") -> httpx.Response:
    head = {"content-encoding": encoding, "content-type": "application/json"}
    return await http.post(URL, content=body, headers=head)


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("gzip", gzip.compress(ASKED)),
        ("GZIP", gzip.compress(ASKED)),
        ("x-gzip", gzip.compress(ASKED[:9]) + gzip.compress(ASKED[9:])),
        ("deflate", zlib.compress(ASKED)),
        ("identity", ASKED),
        ("", ASKED),
    ],
    ids=["gzip", "GZIP", "x-gzip of two", "deflate", "identity", "none"],  # not the bytes
)
async def test_a_compressed_question_is_answered(
    http: httpx.AsyncClient, encoding: str, body: bytes
) -> None:
    answer = await post(http, body, encoding)
    assert answer.status_code == 200, answer.text


async def test_a_compressed_recording_is_heard(http: httpx.AsyncClient) -> None:

    plain = httpx.Request("POST", "http://x", files={"file": ("a.wav", wav(0.5))})
    body, kind = gzip.compress(plain.read()), plain.headers["content-type"]
    head = {"content-encoding": "gzip", "content-type": kind}
    url = "/v1/audio/transcriptions"
    answer = await http.post(url, content=body, headers=head)
    assert (answer.status_code, answer.json()["text"]) == (200, "transcribe 0.5 seconds.")


async def test_a_bomb_is_as_large_as_what_it_becomes(
    http: httpx.AsyncClient, small: Running
) -> None:
    bomb = gzip.compress(bytes(300 * LIMIT))
    assert len(bomb) < LIMIT
    answer = await post(http, bomb)
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "request_too_large")
    assert (await post(http, gzip.compress(bomb))).status_code == 400


@pytest.mark.parametrize(
    ("encoding", "body", "status", "code"),
    [
        ("br", ASKED, 415, "unsupported_encoding"),
        ("gzip, gzip", ASKED, 415, "unsupported_encoding"),
        ("gzip", ASKED, 400, "invalid_encoding"),
        ("gzip", gzip.compress(ASKED)[:-9], 400, "invalid_encoding"),
        ("gzip", gzip.compress(ASKED) + b"more", 400, "invalid_encoding"),
        ("gzip", b"", 400, "invalid_json"),
    ],
    ids=["br", "twice", "plain", "cut off", "and more", "nothing"],
)
async def test_what_is_not_that_is_refused_by_name(
    http: httpx.AsyncClient, encoding: str, body: bytes, status: int, code: str
) -> None:
    answer = await post(http, body, encoding)
    told = answer.json()["error"]
    assert (answer.status_code, told["code"]) == (status, code), told
    assert answer.headers.get("accept-encoding") == ("gzip, deflate" if status == 415 else None)
    # Whose body nobody reads may say what it likes.
    plain = await http.get("/v1/models", headers={"content-encoding": encoding})
    assert plain.status_code == 200


@settings(deadline=None)
@given(st.binary(max_size=3_000), st.integers(1, 99), st.integers(1, 500), st.booleans())
async def test_any_body_comes_out_in_pieces_as_it_was(
    body: bytes, repeats: int, cut: int, is_gzip: bool
) -> None:
    body *= repeats
    sent = gzip.compress(body) if is_gzip else zlib.compress(body)
    pieces = [sent[at : at + cut] for at in range(0, len(sent), cut)]
    messages: list[Message] = [
        {"type": "http.request", "body": piece, "more_body": True} for piece in pieces
    ]
    gone: Message = {"type": "http.disconnect"}
    messages += [{"type": "http.request"}, gone]
    found = bytearray()

    async def receive() -> Message:
        return messages.pop(0)

    async def app(_: Any, receive: Any, __: Any) -> None:
        is_more = True
        while is_more:
            message = await receive()
            assert len(message["body"]) <= encodings.PIECE
            found.extend(message["body"])
            is_more = message["more_body"]
        assert await receive() is gone

    async def send(_: Message) -> None:
        raise AssertionError

    headers = [(b"content-encoding", b"gzip" if is_gzip else b"deflate")]
    await EncodedBodies(app)({"type": "http", "headers": headers}, receive, send)
    assert found == body


async def test_half_a_body_is_none() -> None:
    sent = gzip.compress(ASKED)[:20]

    async def receive() -> Message:
        return {"type": "http.request", "body": sent, "more_body": False}

    async def app(_: Any, receive: Any, __: Any) -> None:
        while (await receive())["more_body"]:
            pass

    async def send(_: Message) -> None:
        raise AssertionError

    scope = {"type": "http", "headers": [(b"content-encoding", b"gzip")]}
    with pytest.raises(ApiError, match="got its beginning only"):
        await EncodedBodies(app)(scope, receive, send)
