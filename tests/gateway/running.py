"""A gateway on a free loopback port with a fake engine, and a client that checks every frame."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray
from opentelemetry.sdk.trace import TracerProvider
from starlette.applications import Starlette
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus

from lookhear.gateway.app.app import create_app
from lookhear.gateway.app.server import bind, make_server
from lookhear.gateway.config import GatewayConfig
from lookhear.gateway.realtime.dialects import DIALECTS
from lookhear.gateway.realtime.protocol.dialect import Dialect
from lookhear.gateway.services.services import Services
from lookhear.gateway.services.siblings import Siblings
from lookhear.gateway.tracing.otlp_metrics import Exporting
from tests.gateway.fake_engine import FakeEngine
from tests.gateway.strict import check
from tests.media.audio.encoders import encode_pcm16

MANUAL: dict[str, Any] = {"audio": {"input": {"turn_detection": None}}}
PATIENCE = 60.0  # seconds after which a missing frame is a failure


class Refusal(NamedTuple):
    """Of a handshake. retry_after: seconds; error: as over HTTP."""

    status: int
    retry_after: int | None
    error: dict[str, Any]


@dataclass
class Running:
    """A gateway that serves."""

    engine: FakeEngine
    app: Starlette
    port: int
    stop: Callable[[], Awaitable[None]]
    signal: Callable[[int], None]
    ended: asyncio.Task[None]

    @property
    def http(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def services(self) -> Services:
        services: Services = self.app.state.services
        return services

    def client(self, query: str = "intent=transcription", **options: Any) -> Client:
        return Client(f"ws://127.0.0.1:{self.port}/v1/realtime?{query}", options)

    async def refused(self, query: str = "intent=transcription", **options: Any) -> Refusal:
        """What a client is told that is not let in: the handshake's answer."""
        with pytest.raises(InvalidStatus) as raised:
            async with self.client(query, **options):
                pass
        response = raised.value.response
        after = response.headers.get("retry-after")
        error: dict[str, Any] = json.loads(response.body)["error"]
        return Refusal(response.status_code, None if after is None else int(after), error)


@contextlib.asynccontextmanager
async def running(
    config: GatewayConfig | None = None,
    engine: FakeEngine | None = None,
    port: int = 0,
    dialects: Sequence[type[Dialect]] = DIALECTS,
    traces: TracerProvider | None = None,
    numbers: Exporting | None = None,
    siblings: Siblings | None = None,
) -> AsyncIterator[Running]:
    """port: 0 for one that is free."""
    engine = engine or FakeEngine()
    started = asyncio.Event()

    async def load() -> None:
        started.set()

    app = create_app(
        config or GatewayConfig(port=0),
        engine,
        load,
        dialects=dialects,
        traces=traces,
        numbers=numbers,
        siblings=siblings,
    )
    server = make_server(app)
    with bind("127.0.0.1", port) as listening:
        # Small, so that a client that does not read is noticed soon.
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65_536)
        port = listening.getsockname()[1]
        task = asyncio.create_task(server.serve(sockets=[listening]))

        async def stop() -> None:
            server.should_exit = True
            await task

        try:
            await started.wait()
            listening_soon = asyncio.create_task(_accepting(port))
            await asyncio.wait({listening_soon, task}, return_when=asyncio.FIRST_COMPLETED)
            yield Running(engine, app, port, stop, lambda sig: server.handle_exit(sig, None), task)
        finally:
            await stop()


async def _accepting(port: int) -> None:
    while True:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except ConnectionError:
            await asyncio.sleep(0)
            continue
        writer.close()
        await writer.wait_closed()
        return


@dataclass
class Client:
    """A raw WebSocket client. Every frame it gets is checked strictly and kept in `seen`. It does
    not ping: how long a test may wait is `PATIENCE`. What it has not asked for it reads all the
    same: with frames unread its end would be waited for in vain."""

    url: str
    options: dict[str, Any] = field(default_factory=dict)
    seen: list[dict[str, Any]] = field(default_factory=list)

    async def __aenter__(self) -> Client:
        options = {"open_timeout": PATIENCE, "ping_interval": None, **self.options}
        self.socket: ClientConnection = await connect(
            self.url, proxy=None, max_size=None, max_queue=None, **options
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.socket.close()

    async def send(self, type: str, **fields: Any) -> None:
        await self.socket.send(json.dumps({"type": type, **fields}))

    async def update(self, session: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
        session = {"type": "transcription", **(session or {})}
        await self.send("session.update", session=session, **fields)
        event = await self.until("session.updated")
        return dict(event["session"])

    async def append(self, data: bytes, **fields: Any) -> None:
        await self.send(
            "input_audio_buffer.append", audio=base64.b64encode(data).decode(), **fields
        )

    async def receive(self) -> dict[str, Any]:
        async with asyncio.timeout(PATIENCE):
            frame = await self.socket.recv()
        assert isinstance(frame, str), "only text frames come from the server"
        event: dict[str, Any] = json.loads(frame)
        self.seen.append(check(event))
        return event

    async def until(self, type: str) -> dict[str, Any]:
        """The next event of this type; the ones before it are in `seen`. An unexpected error
        event is a failure."""
        while True:
            event = await self.receive()
            if event["type"].endswith(type):
                return event
            assert event["type"] != "error", event

    def types(self) -> list[str]:
        return [event["type"] for event in self.seen]

    def deltas(self, item: str) -> str:
        return "".join(
            event["delta"]
            for event in self.seen
            if event["type"].endswith(".delta") and event["item_id"] == item
        )


def tone(seconds: float, rate: int = 24_000) -> bytes:
    """PCM16 of a quiet tone: audio, but not speech."""
    t = np.arange(round(seconds * rate)) / rate
    samples: NDArray[np.float32] = (0.1 * np.sin(2 * np.pi * 220 * t)).astype(np.float32)
    return encode_pcm16(samples)


def chunks(data: bytes, size: int) -> Sequence[bytes]:
    return [data[i : i + size] for i in range(0, len(data), size)]
