"""WebSocket connections that bring many small messages: uvicorn's protocol with a short cut in.

A microphone sends fifty messages a second, and what they cost is mostly what happens around each.
So messages take no detour through the parser's generators and, once a session has attached itself,
none through an ASGI queue: they are cut out of what was read and handed over. And the socket is not
read again until the session's pause is over, so that one system call, one wake-up and one pass over
the session serve several messages.

Who floods gets no more than its share: a turn of the event loop cuts some frames of a connection
and not all that was read, and whoever had more than its share of the loop rests. Pings that come
too fast are not all answered (RFC 6455, 5.5.3, asks for the latest), and too many end it.

What is broken, and the closing handshake, goes to the parser of `websockets` with all its checks.

How a connection ends is mended besides: a client that is not read for a while is not taken for
dead, one that sends too much is told why, and one that takes nothing any more is not kept.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from enum import Enum, auto
from typing import Any

from uvicorn._types import ASGISendEvent
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import CloseCode, Frame, Opcode
from websockets.http11 import Request

from lookhear.gateway.sockets.cutting import (
    OPCODE,
    PING,
    PONG,
    Assembly,
    Broken,
    Cutter,
    Pings,
    WireFrame,
)
from lookhear.gateway.sockets.shares import Share
from lookhear.gateway.sockets.unfinished import Unfinished

EXTENSION = "lookhear.frames"  # in an ASGI scope's extensions: a PacedProtocol
PLENTY = 64 * 1024  # bytes read at once: so much is no microphone, which is read without pauses
UPGRADE_END = b"\r\n\r\n"
LINGER = 5.0  # seconds for a client to take what is still under way to it when a connection ends
# Whoever sent too much has stopped when nothing came for so many times so many seconds. More than
# once, since a process that stood still finds its timers due before it finds what has come.
LOOKS, QUIET = 5, 0.1

SLICE = 128  # frames of one connection in a turn of the event loop, which is a millisecond


class Reading(Enum):
    """What becomes of the bytes of one connection."""

    UPGRADE = auto()  # the request that asks for a WebSocket is not all there
    WAITING = auto()  # it is not answered: what comes behind it is kept
    CUTTING = auto()  # whole frames are cut out here, and messages handed to who is attached
    PARSING = auto()  # the parser found, or will find, something wrong or the end: it has the rest
    DISCARDING = auto()  # the client sent something wrong: all the rest is thrown away


def _drop(frame: WireFrame) -> None:
    """Of a session that let its socket go."""


class PacedProtocol(WebSocketsSansIOProtocol):
    """One connection. Before `attach` messages go uvicorn's own way to the application."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._reading = Reading.UPGRADE
        self._take: Callable[[WireFrame], None] | None = None
        self._pause: Callable[[], float] = float
        self._rest = bytearray()  # the beginning of a frame
        self._wanted = 0  # bytes of that frame, if its head is there
        self._more = False  # there are whole frames in the rest, for the next turn
        self._cutter = Cutter(self.config.ws_max_size)
        self._assembly = Assembly(self.config.ws_max_size)
        self._share: Share | None = None
        self.unfinished: Unfinished | None = None  # of the server
        self._pings = Pings()
        self._pong: bytes | None = None  # owed to the latest ping
        self._failed = False  # the client: it was told why, and its own close frame is waited for
        self._held = False
        self._timer: asyncio.Handle | None = None
        self._heard = True  # anything, since the last ping
        self.was_cut = False  # it ended, and neither side had closed it
        self.on_lost: Callable[[], None] = lambda: None
        self._deadline: asyncio.TimerHandle | None = None

    def attach(
        self,
        take: Callable[[WireFrame], None],
        pause: Callable[[], float],
        share: Share | None = None,
    ) -> None:
        """Messages go to `take` from now on, those that came already first; `receive` gives only
        the disconnect. After each read that brought any, the socket rests for `pause()` seconds,
        and for as long as its share says, to which the reading is charged."""
        assert self._take is None, "attached already"
        self._take, self._pause, self._share = take, pause, share
        for _ in range(self.queue.qsize()):
            message: Any = self.queue.get_nowait()
            if message["type"] == "websocket.receive":
                text = message.get("text")
                take(text if text is not None else message["bytes"])
            else:
                self.queue.put_nowait(message)
        self._read_on()

    def hold(self) -> None:
        """Read nothing until `release`."""
        if not self._held:
            self._held = True
            self._rest_for(0.0)

    def release(self) -> None:
        """Read on after `hold`."""
        if self._held:
            self._held = False
            seconds = 0.0 if self._share is None else self._share.rest()
            if seconds:
                self._rest_for(seconds)
            else:
                self._read_on()

    # --- asyncio and uvicorn ---------------------------------------------------------------------

    def handle_connect(self, event: Request) -> None:
        """The application finds this connection in its scope."""
        super().handle_connect(event)
        if hasattr(self, "scope"):
            extensions: dict[str, Any] = self.scope["extensions"]
            extensions[EXTENSION] = self

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is to be done later any more."""
        for timer in (self._timer, self._deadline):
            if timer is not None:
                timer.cancel()
        self._forget()
        if not self.close_sent and self.conn.close_rcvd is None:
            self.was_cut = True
        self.on_lost()
        super().connection_lost(exc)
        # What is let go here is no garbage that has to be found.
        if self._take is not None:
            self._take = _drop
        if hasattr(self, "scope"):
            self.scope["extensions"].pop(EXTENSION, None)

    def data_received(self, data: bytes) -> None:
        """What the socket brought; see `Reading`."""
        self._heard = True
        if self._reading is Reading.UPGRADE:
            self._ask(data)
            return
        if self._reading is Reading.WAITING:
            self._keep(data)
            return
        if self._failed:
            self._close_when_quiet()
        if self._reading is Reading.DISCARDING:
            return
        if self._reading is not Reading.CUTTING:
            super().data_received(data)
            return
        if self._rest:
            self._rest += data
            if self._more:
                self._rest_for(0.0)
                return
            if len(self._rest) < self._wanted:
                self._holds()
                return
            data, self._rest = bytes(self._rest), bytearray()
        self._read(data)

    async def send(self, message: ASGISendEvent) -> None:
        """Once the handshake is answered, what came behind it is read; and once it is to be closed,
        whatever comes, for the client's own close frame."""
        await super().send(message)
        if self.close_sent and self._held:
            self._held = False
            self._read_on()
        if self._reading is Reading.WAITING and self.handshake_complete:
            self._reading = Reading.CUTTING
            data, self._rest = bytes(self._rest), bytearray()
            self._read_on()
            if data and not self.close_sent:
                self.data_received(data)

    def resume_writing(self) -> None:
        """It has taken most of what was written."""
        super().resume_writing()
        self._answer_ping()

    def handle_parser_exception(self) -> None:
        """A socket that is closed with bytes unread resets the connection, and the reset may
        overtake the close frame that says why. So they are read first, and thrown away."""
        if self._reading is Reading.DISCARDING:
            return
        self._reading = Reading.DISCARDING
        self._held, self._failed = False, True
        self._forget()
        self._read_on()
        closing = self.conn.close_sent
        assert closing is not None
        self.queue.put_nowait(
            {"type": "websocket.disconnect", "code": closing.code, "reason": closing.reason}
        )
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.close_sent = True
        self._close_when_quiet()

    def _close_when_quiet(self, looks: int = LOOKS) -> None:
        """With uvicorn's own timer: while there is one, it does not close."""
        if self.close_timer is not None:
            self.close_timer.cancel()
        if looks:
            self.close_timer = self.loop.call_later(QUIET, self._close_when_quiet, looks - 1)
        else:
            self.transport.close()

    def send_keepalive_ping(self) -> None:
        """From now on anything that comes is an answer to it."""
        self._heard = False
        super().send_keepalive_ping()

    def keepalive_timeout(self) -> None:
        """The answer may wait behind much that is not read yet, or while nothing is read at all.
        Who is dead takes nothing either: to wait until all is written would be for ever."""
        if self.close_sent or self.transport.is_closing():
            return
        if self._heard or self._held:
            self._heard = False
            assert self.ping_timeout is not None
            self.pong_timer = self.loop.call_later(self.ping_timeout, self.keepalive_timeout)
            return
        self.was_cut = True
        super().keepalive_timeout()
        self.transport.abort()

    def on_task_complete(self, task: asyncio.Task[None]) -> None:
        """The application has said its last. A client that does not take it is not kept."""
        super().on_task_complete(task)
        if not self.disconnected:
            waits = self.close_timer is not None  # for the client's own close frame
            most = LINGER + (self.close_timeout if waits else 0.0)
            self._deadline = self.loop.call_later(most, self.transport.abort)

    # --- frames ----------------------------------------------------------------------------------

    def _ask(self, data: bytes) -> None:
        """The upgrade request, which the parser gets as it comes, without what is behind it."""
        before = max(0, len(self._rest) - len(UPGRADE_END) + 1)
        self._rest += data
        found = self._rest.find(UPGRADE_END, before)
        if found < 0:
            super().data_received(data)
            return
        behind = self._rest[found + len(UPGRADE_END) :]
        self._rest, self._reading = bytearray(), Reading.WAITING
        super().data_received(data[: len(data) - len(behind)])
        if behind:
            self._keep(bytes(behind))

    def _keep(self, data: bytes) -> None:
        """No more than a little: the application is about to answer."""
        self._rest += data
        if len(self._rest) > PLENTY and not self.read_paused:
            self._rest_for(0.0)

    def _read(self, data: bytes) -> None:
        """Frames, or pieces of large ones: a slice of them now."""
        began = time.thread_time()
        slice = self._cutter.cut(data, SLICE)
        self._rest, self._more, self._wanted = bytearray(data[slice.at :]), slice.more, slice.wanted
        if self.close_sent:
            slice.frames = []  # only the client's own close frame counts
        gathers = False
        try:
            for first, body in slice.frames:
                if first & OPCODE in (PING, PONG):
                    self._hear_control(first, body)
                    continue
                gathers = True
                message = self._assembly.add(first, body)
                if message is not None:
                    self._hand_over(message)
        except Broken as broken:
            self._fail(broken)
        self._answer_ping()
        if slice.is_other:
            rest, self._reading = bytes(self._rest), Reading.PARSING
            self._forget()
            super().data_received(rest)
            return
        self._holds()
        if self._reading is not Reading.CUTTING:
            return
        gathers = gathers and len(data) < PLENTY and not self._more and not self.close_sent
        seconds = self._pause() if gathers else 0.0
        if self._share is not None:
            self._share.charge(time.thread_time() - began)
            seconds = max(seconds, self._share.rest())
        if self._more or (seconds > 0.0 and not self._held):
            self._rest_for(seconds)

    def _hand_over(self, message: WireFrame) -> None:
        if self._take is not None:
            self._take(message)
            return
        if isinstance(message, str):
            self.queue.put_nowait({"type": "websocket.receive", "text": message})
        else:
            self.queue.put_nowait({"type": "websocket.receive", "bytes": message})
        if not self.read_paused:  # until the application has taken it
            self.read_paused = True
            self.transport.pause_reading()

    def _hear_control(self, first: int, data: bytes) -> None:
        """A ping or a pong. Raises Broken."""
        if first & OPCODE == PONG and data == self.pending_ping_payload:
            self.handle_pong(Frame(Opcode.PONG, data))
            return
        alone = self._pings.add(self.loop.time())
        if first & OPCODE == PING:
            self._pong = data
            if alone:
                self._answer_ping()

    def _answer_ping(self) -> None:
        """The latest of them, once the client takes answers."""
        if self._pong is not None and self.writable.is_set() and not self.close_sent:
            self.conn.send_pong(self._pong)
            self._pong = None
            self.transport.write(b"".join(self.conn.data_to_send()))

    def give_up(self) -> None:
        """What has begun to come is too much, with what the others hold."""
        if not self.close_sent:
            self.conn.fail(CloseCode.TRY_AGAIN_LATER, "too much of unfinished messages; try again")
            self.handle_parser_exception()

    def _fail(self, broken: Broken) -> None:
        """Say why. The frames themselves are sound, so the client's own close frame is found."""
        self.conn.send_close(broken.code, broken.reason)
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.close_sent = self._failed = True
        self.queue.put_nowait(
            {"type": "websocket.disconnect", "code": broken.code, "reason": broken.reason}
        )
        self._assembly.forget()
        if self._held:
            self._held = False
            self._timer = self._timer or self.loop.call_soon(self._read_on)
        self._close_when_quiet()

    def _holds(self) -> None:
        if self.unfinished is not None:
            self.unfinished.holds(self, len(self._rest) + self._assembly.size)

    def _forget(self) -> None:
        """What has begun to come."""
        self._rest, self._more, self._pong = bytearray(), False, None
        self._assembly.forget()
        self._holds()

    def _rest_for(self, seconds: float) -> None:
        """seconds: 0.0 while it is held, or for others to have their turn first."""
        if not self.read_paused:
            self.read_paused = True  # uvicorn reads on by itself when it closes
            self.transport.pause_reading()
        if self._timer is None and not self._held:
            if seconds:
                self._timer = self.loop.call_later(seconds, self._read_on)
            elif self._more:
                self._timer = self.loop.call_soon(self._read_on)

    def _read_on(self) -> None:
        if self._timer is not None:  # a release may come before its time
            self._timer.cancel()
            self._timer = None
        if self._held:
            return
        if self._more:
            data, self._rest = bytes(self._rest), bytearray()
            self._read(data)
            if self._timer is not None or self._held:
                return
        if self._take is None and self._reading is Reading.CUTTING and not self.queue.empty():
            return  # the application reads on when it has taken that
        if self.read_paused:
            self.read_paused = False
            self.transport.resume_reading()
