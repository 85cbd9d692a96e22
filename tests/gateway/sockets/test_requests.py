"""Whoever opens connections and says little keeps nobody out. Over real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from uvicorn import Config
from uvicorn.server import ServerState

from lookhear.gateway.config import GatewayConfig
from lookhear.gateway.sockets import requests
from lookhear.gateway.sockets.connections import SPARE, Connections
from lookhear.gateway.sockets.requests import Doors, WatchedProtocol
from lookhear.gateway.sockets.unfinished import Unfinished
from tests.gateway.running import PATIENCE, Running, running
from tests.gateway.sockets.test_frames import Wire

HEALTH = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
MODELS = HEALTH.replace(b"/health", b"/v1/models")
UPGRADE = (
    b"GET /v1/realtime HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)


class Caller:
    """One connection of a client that says what it likes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def say(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def answer(self) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body of one answer."""
        async with asyncio.timeout(PATIENCE):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode().splitlines()
            headers = {
                name.lower(): value
                for name, _, value in (line.partition(": ") for line in head[1:-1])
            }
            size = int(headers.get("content-length", 0))
            return int(head[0].split()[1]), headers, await self.reader.readexactly(size)

    async def ended(self) -> bytes:
        """What still comes until the server ends the connection."""
        async with asyncio.timeout(PATIENCE):
            try:
                return await self.reader.read()
            except ConnectionResetError:
                return b""


@contextlib.asynccontextmanager
async def calling(gateway: Running) -> AsyncIterator[Any]:
    """Makes callers, and hangs up for them."""
    callers: list[Caller] = []

    async def call(data: bytes = b"") -> Caller:
        caller = Caller(*await asyncio.open_connection("127.0.0.1", gateway.port))
        callers.append(caller)
        await caller.say(data)
        return caller

    try:
        yield call
    finally:
        for caller in callers:
            caller.writer.close()
        for caller in callers:
            with contextlib.suppress(OSError):
                await caller.writer.wait_closed()


def small(**limits: Any) -> GatewayConfig:
    return GatewayConfig(port=0, **limits)


def refused(gateway: Running, code: str) -> float:
    value = gateway.services.metrics.registry.get_sample_value(
        "lookhear_refused_total", {"code": code}
    )
    return value or 0.0


@pytest.mark.parametrize("begun", [b"", b"GET", HEALTH[:-2]])
async def test_a_head_that_does_not_come_is_not_waited_for(begun: bytes) -> None:
    async with running(small(head_seconds=0.05)) as gateway, calling(gateway) as call:
        caller = await call(begun)
        said = await caller.ended()
        assert said.startswith(b"HTTP/1.1 408 ") if begun else not said
        assert refused(gateway, "head_timeout") >= 1
        assert (await (await call(HEALTH)).answer())[0] == 200


async def test_a_second_head_that_trickles_is_not_waited_for_either() -> None:
    async with running(small(head_seconds=0.2)) as gateway, calling(gateway) as call:
        caller = await call(HEALTH)
        assert (await caller.answer())[0] == 200

        async def trickle() -> None:
            with contextlib.suppress(OSError):
                for byte in b"GET /health HTTP/1.1\r\nX: " + b"x" * 60_000:
                    await caller.say(bytes([byte]))
                    await asyncio.sleep(0)

        trickling = asyncio.create_task(trickle())
        await caller.ended()  # without a word, if its last byte crosses the answer
        trickling.cancel()
        assert refused(gateway, "head_timeout") == 1


@pytest.mark.parametrize("said", [b"\0\1\r\n\r\n", b"GET / HTTP/1.1\r\nHost\r\n\r\n"])
async def test_what_is_no_http_is_answered_and_counted(gateway: Running, said: bytes) -> None:
    async with calling(gateway) as call:
        assert (await (await call(said)).ended()).startswith(b"HTTP/1.1 400 ")
        assert refused(gateway, "invalid_http") == 1
        assert (await (await call(HEALTH)).answer())[0] == 200


async def test_requests_in_a_row_are_answered_as_ever() -> None:
    """Pipelined, and cut anywhere."""
    async with running(small(head_seconds=PATIENCE)) as gateway, calling(gateway) as call:
        for size in (1, 7, 1000):
            caller = await call()
            data = HEALTH * 3
            for at in range(0, len(data), size):
                await caller.say(data[at : at + size])
            for _ in range(3):
                status, _, body = await caller.answer()
                assert status == 200 and json.loads(body) == {"status": "ok"}


async def test_half_sent_heads_keep_nobody_out() -> None:
    """However many there are: the oldest makes room."""
    limits = {"max_connections": 16, "max_client_connections": 8, "head_seconds": PATIENCE}
    async with running(small(**limits)) as gateway, calling(gateway) as call:
        silent = [await call(b"GET / HTTP/1.1\r\nX: ") for _ in range(60)]
        for _ in range(3):
            status, headers, _ = await (await call(MODELS)).answer()
            assert status == 200 and "connection" not in headers
        assert await silent[0].ended() == b""
        assert len(gateway.services.connections) <= 8 + SPARE
        assert refused(gateway, "connection_pushed_out") >= 50
        async with gateway.client() as client:
            await client.until("session.created")


async def test_where_all_work_the_rest_is_told_to_come_again() -> None:
    async with (
        running(small(max_connections=16, max_client_connections=2)) as gateway,
        calling(gateway) as call,
        gateway.client() as first,
        gateway.client() as second,
    ):
        await first.until("session.created")
        await second.until("session.created")
        for asked in (MODELS, UPGRADE):
            caller = await call(asked)
            status, headers, body = await caller.answer()
            assert status == 503 and int(headers["retry-after"]) > 0
            assert json.loads(body)["error"]["code"] == "too_many_connections"
            assert await caller.ended() == b""
        assert refused(gateway, "too_many_connections") == 2
        for asked in (HEALTH, HEALTH.replace(b"/health", b"/metrics")):
            caller = await call(asked)
            status, headers, _ = await caller.answer()
            assert status == 200 and headers["connection"] == "close"
            assert await caller.ended() == b""
        # Nor do half-sent heads take the spare places.
        for _ in range(SPARE + 10):
            await call(b"GET")
        assert (await (await call(HEALTH)).answer())[0] == 200
        await first.send("input_audio_buffer.clear")
        await first.until("cleared")


async def test_a_place_is_free_again(gateway: Running) -> None:
    async with calling(gateway) as call:
        assert (await (await call(HEALTH)).answer())[0] == 200
        async with gateway.client() as client:
            await client.until("session.created")
            assert len(gateway.services.connections) >= 2
    await gateway.stop()
    assert len(gateway.services.connections) == 0


async def test_what_comes_with_the_upgrade_is_not_lost(gateway: Running) -> None:
    async with calling(gateway) as call:
        text = b'{"type":"input_audio_buffer.clear"}'
        frame = bytes([0x81, 0x80 | len(text), 0, 0, 0, 0]) + text
        caller = await call(UPGRADE + frame + frame[:9])
        await caller.say(frame[9:])
        async with asyncio.timeout(PATIENCE):
            for _ in range(2):
                await caller.reader.readuntil(b"input_audio_buffer.cleared")


@pytest.mark.parametrize("is_end", [False, True])
async def test_an_answer_that_is_not_taken_is_given_up(
    is_end: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More than fits between the two, or a little and then the end."""
    monkeypatch.setattr(requests, "TAKE_SECONDS", 0.001)
    told: list[str] = []
    loop = asyncio.get_running_loop()
    doors = Doors(
        Connections(1, 1, told.append),
        Unfinished(1, told.append),
        PATIENCE,
        answers,
        told.append,
    )
    config = Config(answers, log_config=None)
    config.load()
    protocol = WatchedProtocol(config, ServerState(), {}, loop, doors=doors)
    wire = Wire()
    protocol.connection_made(wire)
    closing = HEALTH.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    protocol.data_received(closing if is_end else HEALTH)
    if not is_end:
        protocol.pause_writing()
        protocol.resume_writing()
        assert protocol._taking is None
        protocol.pause_writing()
    async with asyncio.timeout(PATIENCE):
        while not wire.aborted:
            await asyncio.sleep(0)
    assert told == ["answer_not_taken"] and wire.closed is is_end
    protocol.connection_lost(None)
    assert len(doors.connections) == 0


async def answers(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body"})


@pytest.mark.parametrize("limit", ["REST_SECONDS", "SILENT_SECONDS"])
async def test_a_body_that_nobody_reads_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    monkeypatch.setattr(requests, limit, 0.05)
    async with running(small(max_upload_bytes=1024)) as gateway, calling(gateway) as call:
        head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
        caller = await call(head + b"Content-Length: 9999\r\n\r\n{")
        assert (await caller.answer())[0] == 413
        assert await caller.ended() == b""
