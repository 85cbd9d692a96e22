"""Connections that we accept ourselves: those that are to be encrypted, until they are, and those
that the parent of several workers has accepted.

Whoever shakes hands has a place among all connections, and as long for it as for the head of a
request. Left to the loop's own servers they would be counted by nobody. Connections are accepted
here and handed to the loop whole: `start_tls` would lose what comes before it is called.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable
from typing import Any

from lookhear.gateway.sockets.requests import Doors, WatchedProtocol

NO_TLS = "tls_handshake"
BACKLOG = 2048  # connections that the system keeps for us, as uvicorn's
PAUSE = 1.0  # seconds until the next try where the system has no descriptor left

Accept = Callable[[], Awaitable[tuple[socket.socket, Any]]]
"""Waits for a connection -> (it, its address). Raises OSError."""


def accepting(sock: socket.socket) -> Accept:
    """Connections of a bound socket, on which we listen from now on."""
    sock.setblocking(False)
    sock.listen(BACKLOG)
    return lambda: asyncio.get_running_loop().sock_accept(sock)


class Listener:
    """Takes connections until it is closed. accept: waits for the next one. make: the protocol of
    one. context: None if they are not encrypted."""

    def __init__(
        self,
        accept: Accept,
        make: Callable[[], WatchedProtocol],
        context: ssl.SSLContext | None,
        doors: Doors,
    ) -> None:
        self._next = accept
        self._make = make
        self._context = context
        self._doors = doors
        self._shaking: set[asyncio.Task[None]] = set()
        self._accepting = asyncio.get_running_loop().create_task(self._accept())

    def close(self) -> None:
        """Accept no more. Who shakes hands is cut off."""
        for task in (self._accepting, *self._shaking):
            task.cancel()

    async def wait_closed(self) -> None:
        """Until nobody is accepted any more."""
        await asyncio.wait([self._accepting, *self._shaking])

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, address = await self._next()
            except ConnectionError:  # it went before we came
                continue
            except OSError:
                await asyncio.sleep(PAUSE)
                continue
            host = address[0] if isinstance(address, tuple) else ""
            task = loop.create_task(
                self._begin(connection) if self._context is None else self._shake(connection, host)
            )
            self._shaking.add(task)
            task.add_done_callback(self._shaking.discard)

    async def _begin(self, connection: socket.socket) -> None:
        """Its protocol asks for a place by itself."""
        loop = asyncio.get_running_loop()
        try:
            await loop.connect_accepted_socket(self._make, connection)
        except OSError:  # it went before we came
            connection.close()

    async def _shake(self, connection: socket.socket, host: str) -> None:
        doors, shaking = self._doors, asyncio.current_task()
        assert shaking is not None
        place = doors.connections.enter(host, shaking.cancel)
        if place is None:
            connection.close()
            return

        def made() -> WatchedProtocol:
            protocol = self._make()
            protocol.keep(place)
            return protocol

        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                made,
                connection,
                ssl=self._context,
                ssl_handshake_timeout=doors.head_seconds,
            )
        except OSError:  # ssl.SSLError and timeouts are some
            doors.refused(NO_TLS)
            doors.connections.leave(place)
            connection.close()
        except asyncio.CancelledError:
            doors.connections.leave(place)
            connection.close()
            raise
