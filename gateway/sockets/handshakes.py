"""Connections that are to be encrypted, until they are.

Whoever shakes hands has a place among all connections, and as long for it as for the head of a
request. Left to the loop's own servers they would be counted by nobody. Connections are accepted
here and handed to the loop whole: `start_tls` would lose what comes before it is called.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable

from lookhear.gateway.sockets.requests import Doors, WatchedProtocol

NO_TLS = "tls_handshake"
BACKLOG = 2048  # connections that the system keeps for us, as uvicorn's
PAUSE = 1.0  # seconds until the next try where the system has no descriptor left


class Listener:
    """Accepts connections on a bound socket until it is closed. make: the protocol of one."""

    def __init__(
        self,
        sock: socket.socket,
        make: Callable[[], WatchedProtocol],
        context: ssl.SSLContext,
        doors: Doors,
    ) -> None:
        self._sock = sock
        self._make = make
        self._context = context
        self._doors = doors
        self._shaking: set[asyncio.Task[None]] = set()
        sock.setblocking(False)
        sock.listen(BACKLOG)
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
                connection, address = await loop.sock_accept(self._sock)
            except ConnectionError:  # it went before we came
                continue
            except OSError:
                await asyncio.sleep(PAUSE)
                continue
            host = address[0] if isinstance(address, tuple) else ""
            task = loop.create_task(self._shake(connection, host))
            self._shaking.add(task)
            task.add_done_callback(self._shaking.discard)

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
