"""Requests over HTTP that are left before their answer is there, or whose answer breaks off."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from lookhear import AsyncClient, ConnectionFailed
from lookhear.transport.address import Server
from lookhear.transport.sse import fetch


@dataclass
class SilentServer:
    """Says `answer`, and waits for its clients to go."""

    answer: bytes = b""
    url: str = ""
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    hung_up: asyncio.Event = field(default_factory=asyncio.Event)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[SilentServer]:
        async with await asyncio.start_server(self._serve, "127.0.0.1", 0) as server:
            self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            yield self

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        self.asked.set()
        writer.write(self.answer)
        if not self.answer:
            await reader.read()
            self.hung_up.set()
        writer.close()


@pytest.mark.parametrize(
    "ask",
    [
        pytest.param(lambda client: client.transcribe_file(b"RIFF", model="m"), id="file"),
        pytest.param(lambda client: client.models(), id="models"),
    ],
)
async def test_cancelling_hangs_up(ask: Callable[[AsyncClient], Awaitable[object]]) -> None:
    async with SilentServer().running() as server:
        asking = asyncio.ensure_future(ask(AsyncClient(server.url)))
        await server.asked.wait()
        asking.cancel()
        await asyncio.wait([asking])
        await asyncio.wait_for(server.hung_up.wait(), 60)


async def test_an_answer_that_breaks_off_is_not_taken_for_whole() -> None:
    cut = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nThe quick brown"
    async with SilentServer(cut).running() as server:
        with pytest.raises(ConnectionFailed):
            await fetch(Server(server.url), "/v1/models")
