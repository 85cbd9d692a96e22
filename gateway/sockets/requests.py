"""HTTP connections that do not wait for ever: uvicorn's protocol with a watch on it.

The head of a request has to come within some seconds, however little by little it comes; so has the
rest of a body that nobody reads any more. (A body that is read is watched by who reads it: see
`gateway.app.bodies`.) And an answer has to be taken. A connection that asks for a WebSocket hands
its place on, and whatever came behind its request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from typing import Any, cast

import h11
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from lookhear.gateway.sockets.connections import Connections, Place
from lookhear.gateway.sockets.frames import PacedProtocol
from lookhear.gateway.sockets.relay import Keepers
from lookhear.gateway.sockets.unfinished import Unfinished

HEAD_TIMEOUT = "head_timeout"
NO_HTTP = "invalid_http"
LATE = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
# Seconds for the rest of a body that was refused: to close earlier would reset the connection, and
# the reset may overtake the answer that says why.
REST_SECONDS = 30.0
# Seconds in which nothing of it comes.
SILENT_SECONDS = 5.0
# Seconds in which a client takes nothing of an answer, or not the end of the last one. asyncio
# waits for ever.
TAKE_SECONDS = 60.0
NOT_TAKEN = "answer_not_taken"
ANSWERED = (h11.DONE, h11.MUST_CLOSE, h11.CLOSED)  # states of our side


class Stage(Enum):
    """What a connection is at."""

    IDLE = auto()  # between two requests, silent: uvicorn's own timer
    HEAD = auto()  # the head of a request is to come, or comes
    REQUEST = auto()  # it came, and is worked on
    REST = auto()  # it is answered, but not all there


@dataclass(frozen=True, slots=True)
class Doors:
    """What all connections of one server share. head_seconds: for the head of a request. spare:
    answers who has a spare place only. refused: hears why one is turned away. keepers: of sessions,
    if there are other workers."""

    connections: Connections
    unfinished: Unfinished
    head_seconds: float
    spare: ASGIApp
    refused: Callable[[str], None]
    keepers: Keepers | None = None


class Answering:
    """A transport as uvicorn's cycle has it, whose `close` is another one."""

    def __init__(self, transport: asyncio.Transport, close: Callable[[], None]) -> None:
        self._transport = transport
        self.close = close

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class WatchedProtocol(H11Protocol):
    """One connection, until it is a WebSocket."""

    def __init__(self, *arguments: Any, doors: Doors, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._doors = doors
        self._place: Place | None = None
        self._stage = Stage.IDLE
        self._timer: asyncio.TimerHandle | None = None
        self._rest_until = 0.0  # time of the loop
        self._bytes_came = False
        self._taking: asyncio.TimerHandle | None = None
        self._is_relayed = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A newcomer, if there is room for it. Its first head is due from now on."""
        super().connection_made(transport)
        if self._place is None:
            peer = transport.get_extra_info("peername")
            host = peer[0] if isinstance(peer, tuple) else ""
            self._place = self._doors.connections.enter(host, transport.abort)
        else:
            self._place.close = transport.abort
        if self._place is None:
            transport.abort()
            return
        if self._place.spare:
            self.app = self._doors.spare
        self._enter(Stage.HEAD)

    def keep(self, place: Place) -> None:
        """It has that place before it is connected."""
        self._place = place

    def relayed(self) -> None:
        """Another worker passes it on, and knows why: it is not passed on again."""
        self._is_relayed = True

    def connection_lost(self, exc: Exception | None) -> None:
        """Somebody else may have its place."""
        self._stop_timer()
        self._stop_taking()
        if self._place is not None:
            self._doors.connections.leave(self._place)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """What the socket brought."""
        if self._place is None or self.transport.is_closing():
            return
        self._bytes_came = True
        if self._stage is Stage.IDLE:
            self._enter(Stage.HEAD)
        if self.conn.our_state is h11.CLOSED:
            self._throw_away(data)
        else:
            super().data_received(data)
            self._hold_open()
        self._look()

    def on_response_complete(self) -> None:
        """One request is answered."""
        super().on_response_complete()
        self._hold_open()
        self._look()

    def _hold_open(self) -> None:
        """uvicorn closes behind the answer to who wants no other (`Connection: close`)."""
        if self.cycle is not None and not isinstance(self.cycle.transport, Answering):
            self.cycle.transport = cast(asyncio.Transport, Answering(self.transport, self._close))

    def _close(self) -> None:
        """The last answer is given. Where its body still comes, it is thrown away first; whoever
        waits for the end of the answer need not wait for that."""
        if self.conn.their_state is not h11.SEND_BODY:
            self.transport.close()
        elif self.transport.can_write_eof():
            self.transport.write_eof()

    def _throw_away(self, data: bytes) -> None:
        try:
            self.conn.receive_data(data)
            while isinstance(event := self.conn.next_event(), h11.Data):
                pass
        except h11.RemoteProtocolError:
            self.transport.close()
        else:
            if event is not h11.NEED_DATA:
                self.transport.close()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """The connection is the WebSocket's from now on."""
        assert self._place is not None
        self._stop_timer()
        self._stop_taking()
        self._doors.connections.work(self._place)
        self.connections.discard(self)
        head = b"".join(
            [event.method, b" ", event.target, b" HTTP/1.1\r\n"]
            + [b"%s: %s\r\n" % (name, value) for name, value in self.headers]
            + [b"\r\n"]
        )
        behind, _ = self.conn.trailing_data
        place, keepers = self._place, self._doors.keepers
        self._place = None
        upgrade = partial(self._upgrade, place, head + behind)
        leave = partial(self._doors.connections.leave, place)
        if keepers is None or self._is_relayed:
            upgrade()
        elif not keepers.take(self.transport, event.target, head + behind, upgrade, leave):
            upgrade()

    def _upgrade(self, place: Place, first: bytes) -> None:
        """It is a WebSocket of ours. first: what came of it."""
        protocol = self.ws_protocol_class(  # type: ignore[call-arg, misc]
            config=self.config, server_state=self.server_state, app_state=self.app_state
        )
        assert isinstance(protocol, PacedProtocol)
        doors = self._doors
        protocol.unfinished = doors.unfinished
        protocol.on_lost = lambda: doors.connections.leave(place)
        self.transport.set_protocol(protocol)
        protocol.connection_made(self.transport)
        protocol.data_received(first)

    def _should_upgrade(self) -> bool:
        return self._place is not None and not self._place.spare and super()._should_upgrade()

    def send_400_response(self, msg: str) -> None:
        """What came is no HTTP."""
        self._doors.refused(NO_HTTP)
        super().send_400_response(msg)

    def pause_writing(self) -> None:
        """Much is on its way to the client."""
        super().pause_writing()
        self._has_to_take()

    def resume_writing(self) -> None:
        """It has taken most of it."""
        self._stop_taking()
        super().resume_writing()
        if self.transport.is_closing():
            self._has_to_take()

    # --- the watch -------------------------------------------------------------------------------

    def _look(self) -> None:
        """After anything happened: what is it at now?"""
        if self._place is None:
            return
        if self.transport.is_closing():
            self._stop_timer()
            if self._taking is None:
                self._has_to_take()
            return
        ours, theirs = self.conn.our_state, self.conn.their_state
        if theirs is h11.IDLE:
            if self._stage is not Stage.HEAD:
                self._enter(Stage.HEAD if self.conn.trailing_data[0] else Stage.IDLE)
        elif theirs is h11.SEND_BODY and ours in ANSWERED:
            if self._stage is not Stage.REST:
                self._enter(Stage.REST)
            self._wait_for_rest()
        elif self._stage is not Stage.REQUEST:
            self._enter(Stage.REQUEST)

    def _enter(self, stage: Stage) -> None:
        assert self._place is not None
        self._stage = stage
        self._stop_timer()
        connections = self._doors.connections
        if stage is Stage.IDLE or stage is Stage.HEAD:
            connections.wait(self._place)
        else:
            connections.work(self._place)
        if stage is Stage.HEAD:
            self._timer = self.loop.call_later(self._doors.head_seconds, self._head_is_late)
        elif stage is Stage.REST:
            self._rest_until = self.loop.time() + REST_SECONDS

    def _wait_for_rest(self) -> None:
        self._stop_timer()
        until = min(self._rest_until, self.loop.time() + SILENT_SECONDS)
        self._timer = self.loop.call_at(until, self.transport.abort)

    def _head_is_late(self) -> None:
        self._doors.refused(HEAD_TIMEOUT)
        if self._bytes_came:
            self.transport.write(LATE)
        self.transport.close()
        self._has_to_take()

    def _has_to_take(self) -> None:
        self._stop_taking()
        self._taking = self.loop.call_later(TAKE_SECONDS, self._is_not_taken)

    def _is_not_taken(self) -> None:
        self._doors.refused(NOT_TAKEN)
        self.transport.abort()

    def _stop_taking(self) -> None:
        if self._taking is not None:
            self._taking.cancel()
            self._taking = None

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
