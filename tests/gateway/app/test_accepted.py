"""Connections that another process has accepted are served like our own."""

from __future__ import annotations

import asyncio
import socket
import ssl
from pathlib import Path

import pytest

from lookhear.gateway.app.app import create_app
from lookhear.gateway.app.server import bind, make_server
from lookhear.gateway.config import GatewayConfig
from tests.gateway.fake_engine import FakeEngine
from tests.gateway.running import PATIENCE
from tests.gateway.sockets.test_handshakes import encrypted, folder, trusting
from tests.gateway.sockets.test_requests import HEALTH, Caller

__all__ = ["folder"]  # a fixture


def test_an_address_is_taken_as_soon_as_a_server_has_begun() -> None:
    """Not when it serves: the second of two that start together would believe that it does, too."""
    with bind("127.0.0.1", 0) as begun, pytest.raises(OSError, match="in use"):
        bind("127.0.0.1", begun.getsockname()[1]).close()


@pytest.mark.parametrize("is_encrypted", [False, True])
async def test_they_are_served(is_encrypted: bool, folder: Path) -> None:
    config = encrypted(folder) if is_encrypted else GatewayConfig(port=0)
    context: ssl.SSLContext | None = trusting() if is_encrypted else None
    came: asyncio.Queue[tuple[socket.socket, object]] = asyncio.Queue()
    loaded = asyncio.Event()

    async def load() -> None:
        loaded.set()

    app = create_app(config, FakeEngine(), load)
    server = make_server(app, came.get)
    serving = asyncio.create_task(server.serve(sockets=[]))
    loop = asyncio.get_running_loop()
    with bind("127.0.0.1", 0) as listening:
        listening.setblocking(False)
        async with asyncio.timeout(PATIENCE):
            await loaded.wait()
            for _ in range(3):
                port = listening.getsockname()[1]
                opening = asyncio.create_task(
                    asyncio.open_connection("127.0.0.1", port, ssl=context)
                )
                came.put_nowait(await loop.sock_accept(listening))
                reader, writer = await opening
                writer.write(HEALTH)
                assert (await Caller(reader, writer).answer())[0] == 200
                assert len(app.state.services.connections) == 1
                writer.close()
                while app.state.services.connections:
                    await asyncio.sleep(0)
            server.should_exit = True
            await serving
