"""Connections that are to be encrypted, until they are.

Whoever shakes hands has a place among all connections, and as long for it as for the head of a
request. Left to the loop they would be counted by nobody, and have a minute.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable

from lookhear.gateway.sockets.connections import Place
from lookhear.gateway.sockets.requests import Doors, WatchedProtocol

NO_TLS = "tls_handshake"


class Handshake(asyncio.Protocol):
    """One connection. make: the protocol of it when it is encrypted."""

    def __init__(
        self, make: Callable[[], WatchedProtocol], context: ssl.SSLContext, doors: Doors
    ) -> None:
        self._make = make
        self._context = context
        self._doors = doors
        self._place: Place | None = None
        self._early = bytearray()  # what came right behind the handshake
        self._shaking: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin, if there is room for it."""
        assert isinstance(transport, asyncio.Transport)
        peer = transport.get_extra_info("peername")
        host = peer[0] if isinstance(peer, tuple) else ""
        self._place = self._doors.connections.enter(host, transport.abort)
        if self._place is None:
            transport.abort()
            return
        self._shaking = asyncio.get_running_loop().create_task(self._shake(transport, self._place))

    def data_received(self, data: bytes) -> None:
        """Encrypted already, but its protocol is not there yet."""
        self._early += data

    async def _shake(self, transport: asyncio.Transport, place: Place) -> None:
        connections = self._doors.connections
        try:
            encrypted = await asyncio.get_running_loop().start_tls(
                transport,
                self,
                self._context,
                server_side=True,
                ssl_handshake_timeout=self._doors.head_seconds,
            )
        except OSError:  # ssl.SSLError and timeouts are some
            encrypted = None
        if encrypted is None or encrypted.is_closing():
            self._doors.refused(NO_TLS)
            connections.leave(place)
            transport.abort()
            return
        protocol = self._make()
        encrypted.set_protocol(protocol)
        protocol.enter(encrypted, place)
        if self._early:
            protocol.data_received(bytes(self._early))
