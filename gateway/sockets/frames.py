"""WebSocket connections that bring many small messages: uvicorn's protocol with a short cut in.

A microphone sends fifty messages a second, and what they cost is mostly what happens around each.
Once a session has attached itself, its text messages take no detour through the parser's generators
and an ASGI queue: they are cut out of what was read and handed over. And the socket is not read
again until the session's pause is over, so that one system call, one wake-up and one pass over the
session serve several messages.

Only whole, plain, masked frames are handled here. Everything else - control frames, fragments, what
is broken - goes to the parser of `websockets`, which keeps all its checks; and only whole, so that
it is never in the middle of a frame when a session attaches itself.

How a connection ends is mended besides: a client that is not read for a while is not taken for
dead, one that sends too much is told why, and one that takes nothing any more is not kept.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import Enum, auto
from typing import Any

from uvicorn._types import ASGISendEvent
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.http11 import Request

try:
    from websockets.speedups import apply_mask
except ImportError:  # built without it
    from websockets.utils import apply_mask

EXTENSION = "lookhear.frames"  # in an ASGI scope's extensions: a PacedProtocol
PLENTY = 64 * 1024  # bytes read at once: so much is no microphone, which is read without pauses
UPGRADE_END = b"\r\n\r\n"
LAST_PIECE = b"\x80\x80\0\0\0\0"  # an empty frame that ends a message of several frames
LINGER = 5.0  # seconds for a client to take what is still under way to it when a connection ends
# Whoever sent too much has stopped when nothing came for so many times so many seconds. More than
# once, since a process that stood still finds its timers due before it finds what has come.
LOOKS, QUIET = 5, 0.1

FIN, OPCODE, MASKED, LENGTH = 0x80, 0x0F, 0x80, 0x7F
CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0x0, 0x1, 0x2, 0x8, 0x9, 0xA
# First bytes of frames whose end is found here: known kinds, no reserved bits.
KNOWN = frozenset(
    [opcode | fin for opcode in (CONTINUATION, TEXT, BINARY) for fin in (0, FIN)]
    + [CLOSE | FIN, PING | FIN, PONG | FIN]
)

WireFrame = str | bytes
"""A whole message of a client."""


class Reading(Enum):
    """What becomes of the bytes of one connection."""

    UPGRADE = auto()  # the request that asks for a WebSocket is not all there
    WAITING = auto()  # it is not answered: what comes behind it is kept
    CUTTING = auto()  # whole frames are cut out here, and plain messages handed to who is attached
    PARSING = auto()  # the parser found, or will find, something wrong or the end: it has the rest
    DISCARDING = auto()  # the client sent something wrong: all the rest is thrown away


class PacedProtocol(WebSocketsSansIOProtocol):
    """One connection. Before `attach` messages go uvicorn's own way to the application."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._reading = Reading.UPGRADE
        self._take: Callable[[WireFrame], None] | None = None
        self._pause: Callable[[], float] = float
        self._rest = bytearray()  # the beginning of a frame
        self._wanted = 0  # bytes of that frame, if its head is there
        self._fragmented = False  # in the middle of a message of several frames
        self._given_up = False  # that message, for the end came first
        self._held = False
        self._timer: asyncio.TimerHandle | None = None
        self._heard = True  # anything, since the last ping
        self.was_cut = False  # it ended, and neither side had closed it
        self.on_lost: Callable[[], None] = lambda: None
        self._deadline: asyncio.TimerHandle | None = None

    def attach(self, take: Callable[[WireFrame], None], pause: Callable[[], float]) -> None:
        """Messages go to `take` from now on, those that came already first; `receive` gives only
        the disconnect. After each read that brought any, the socket rests for `pause()` seconds."""
        assert self._take is None, "attached already"
        self._take, self._pause = take, pause
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
        if not self.close_sent and self.conn.close_rcvd is None:
            self.was_cut = True
        self.on_lost()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """What the socket brought; see `Reading`."""
        self._heard = True
        if self._reading is Reading.UPGRADE:
            self._ask(data)
            return
        if self._reading is Reading.WAITING:
            self._keep(data)
            return
        if self._reading is Reading.DISCARDING:
            self._close_when_quiet()
            return
        if self._reading is not Reading.CUTTING:
            super().data_received(data)
            return
        if self._rest:
            self._rest += data
            if len(self._rest) < self._wanted:
                return
            data, self._rest = bytes(self._rest), bytearray()
        if self._cut(data):
            seconds = self._pause() if len(data) < PLENTY else 0.0
            if seconds > 0.0 and not self._held and not self.close_sent:
                self._rest_for(seconds)

    async def send(self, message: ASGISendEvent) -> None:
        """Once the handshake is answered, what came behind it is read."""
        await super().send(message)
        if self._reading is Reading.WAITING and self.handshake_complete:
            self._reading = Reading.CUTTING
            data, self._rest = bytes(self._rest), bytearray()
            self._read_on()
            if data and not self.close_sent:
                self.data_received(data)

    def send_receive_event_to_app(self) -> None:
        """A message that the parser put together."""
        if self._given_up:
            self.frames = []
            return
        if self._take is None:
            super().send_receive_event_to_app()
            return
        data, self.frames = b"".join(self.frames), []
        if self.close_sent:
            return
        if self.curr_msg_data_type == "bytes":
            self._take(data)
            return
        try:
            text = data.decode()
        except UnicodeDecodeError:
            self.conn.send_close(1007)
            self.handle_parser_exception()
            return
        self._take(text)

    def handle_parser_exception(self) -> None:
        """A socket that is closed with bytes unread resets the connection, and the reset may
        overtake the close frame that says why. So they are read first, and thrown away."""
        if self._reading is Reading.DISCARDING:
            return
        self._reading = Reading.DISCARDING
        self._held = False
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

    def _cut(self, data: bytes) -> bool:
        """Hand over all whole frames in `data`, keep the rest -> whether any was a message.
        RFC 6455, section 5.2."""
        at, end, found = 0, len(data), False
        while end - at >= 2:
            first, second = data[at], data[at + 1]
            length, head = second & LENGTH, 6
            if length == 126:
                head = 8
            elif length == 127:
                head = 14
            if head > 6:
                if end - at < head:
                    break
                length = int.from_bytes(data[at + 2 : at + head - 4], "big")
            if first not in KNOWN or second < MASKED or length > self.config.ws_max_size:
                self._leave_to_parser()
            if self.conn.parser_exc is not None:
                return found  # it is closed; nothing more counts
            if self._reading is not Reading.CUTTING or self.close_sent:
                self._leave_to_parser()
                super().data_received(data[at:])
                return found
            stop = at + head + length
            if stop > end:
                self._wanted = stop - at
                self._rest += data[at:]
                return found
            opcode = first & OPCODE
            if self._take is not None and first == TEXT | FIN and not self._fragmented:
                body = apply_mask(data[at + head : stop], data[at + head - 4 : at + head])
                try:
                    text = body.decode()
                except UnicodeDecodeError:
                    super().data_received(data[at:stop])
                else:
                    self._take(text)
            else:
                if opcode == CLOSE and self._fragmented:
                    # Of two frames of a message nobody reads the rest any more; for the parser
                    # that is an error, for RFC 6455 (5.4, 7.1) it is an end like any other.
                    self._given_up = True
                    super().data_received(LAST_PIECE)
                super().data_received(data[at:stop])
                if opcode < CLOSE:
                    self._fragmented = not first & FIN
                elif opcode == CLOSE:
                    self._leave_to_parser()  # which drops what comes after
            found = found or opcode < CLOSE
            at = stop
        if at < end:
            self._wanted = 0  # not known before the rest of its head is there
            self._rest += data[at:]
        return found

    def _leave_to_parser(self) -> None:
        if self._reading is Reading.CUTTING:
            self._reading = Reading.PARSING

    def _rest_for(self, seconds: float) -> None:
        """seconds: 0.0 while it is held."""
        if not self.read_paused:
            self.read_paused = True  # uvicorn reads on by itself when it closes
            self.transport.pause_reading()
        if seconds:
            self._timer = self.loop.call_later(seconds, self._read_on)

    def _read_on(self) -> None:
        if self._timer is not None:  # a release may come before its time
            self._timer.cancel()
            self._timer = None
        if self.read_paused and not self._held:
            self.read_paused = False
            self.transport.resume_reading()
