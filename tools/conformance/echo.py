"""An echo behind our own sockets: `python -m tools.conformance.echo`. Says its port, and serves
until its standard input ends."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Any

import uvicorn

from lookhear.gateway.app.server import bind, run, uvicorn_config
from lookhear.gateway.config import GatewayConfig
from lookhear.gateway.sockets.connections import Connections
from lookhear.gateway.sockets.cutting import WireFrame
from lookhear.gateway.sockets.frames import EXTENSION
from lookhear.gateway.sockets.requests import Doors
from lookhear.gateway.sockets.shares import Shares
from lookhear.gateway.sockets.unfinished import Unfinished

MOST = 64 * 1024  # connections


class Echo:
    """The application. Takes messages as a session does."""

    def __init__(self) -> None:
        self._shares = Shares(time.monotonic, time.thread_time)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """One connection."""
        if scope["type"] != "websocket":
            return
        await receive()
        await send({"type": "websocket.accept"})
        messages: asyncio.Queue[WireFrame] = asyncio.Queue()
        share = self._shares.one()
        scope["extensions"][EXTENSION].attach(messages.put_nowait, float, share)

        async def answer() -> None:
            while True:
                message = await messages.get()
                kind = "text" if isinstance(message, str) else "bytes"
                await send({"type": "websocket.send", kind: message})

        answering = asyncio.create_task(share.metered(answer()))
        await receive()
        answering.cancel()
        await asyncio.gather(answering, return_exceptions=True)


async def serve() -> None:
    """Until the standard input ends."""
    config = GatewayConfig()
    doors = Doors(
        Connections(MOST, MOST, print),
        Unfinished(config.max_unfinished_bytes, print),
        config.head_seconds,
        Echo(),
        print,
    )
    echo = uvicorn_config(Echo(), config, doors)
    echo.lifespan = "off"
    server = uvicorn.Server(echo)
    with bind("127.0.0.1", 0) as listening:
        listening.listen()  # whoever reads the port may connect
        print(listening.getsockname()[1], flush=True)
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        await asyncio.to_thread(sys.stdin.read)
        server.should_exit = True
        await serving


if __name__ == "__main__":
    run(serve())
