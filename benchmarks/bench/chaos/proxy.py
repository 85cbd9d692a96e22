"""A TCP proxy on this machine that can cut its connections, or let nothing pass for a while."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

_PIECE = 64 * 1024


class Proxy:
    """`async with Proxy(port) as proxy`: `proxy.port` leads to that port of 127.0.0.1. passed:
    called with the bytes of each piece that came from the server."""

    def __init__(self, port: int, passed: Callable[[int], None] = lambda _: None) -> None:
        self.port = 0
        self._to = port
        self._passed = passed
        self._thawed = asyncio.Event()
        self._thawed.set()
        self._writers: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> Proxy:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = int(self._server.sockets[0].getsockname()[1])
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        self.cut()

    def cut(self) -> int:
        """Reset every connection, without a word -> how many ends there were."""
        cut = len(self._writers)
        for writer in self._writers:
            writer.transport.abort()
        return cut

    def freeze(self) -> None:
        """Nothing passes until `thaw`; connections stay open."""
        self._thawed.clear()

    def thaw(self) -> None:
        """What waited passes, and all that follows."""
        self._thawed.set()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self._to)
        except OSError:
            writer.transport.abort()
            return
        ends = {writer, back}
        self._writers |= ends
        ways = [
            asyncio.create_task(self._pass(reader, back, lambda _: None)),
            asyncio.create_task(self._pass(there, writer, self._passed)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            for end in ends:
                end.transport.abort() if end.transport.is_closing() else end.close()
            self._writers -= ends

    async def _pass(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        passed: Callable[[int], None],
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(_PIECE):
                await self._thawed.wait()
                writer.write(data)
                await writer.drain()
                passed(len(data))
