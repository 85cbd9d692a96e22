"""Queues between a session's tasks, bounded by bytes rather than by number; and the outbox, of
frames and then one close frame, which outlives the sockets that it is written to."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Callable
from enum import Enum, auto
from typing import Generic, TypeVar

from starlette.websockets import WebSocket, WebSocketDisconnect

from lookhear.gateway.realtime.protocol.dialect import Close, Json
from lookhear.gateway.realtime.session.event_log import EventLog

T = TypeVar("T")

BATCH = 4 * 1024 * 1024  # bytes taken at once
MOST_TAKEN = 64  # items: a batch of messages is some milliseconds of the event loop
WAITING = 1024  # items in an inbox, however small they are
TAKE_SECONDS = 30.0  # in which a client takes nothing, while much waits for it: it does not read
CLOSE_SECONDS = 1.0  # how long a slow reader may take to see why it is closed


class ByteQueue(Generic[T]):
    """First in, first out; one taker. `size` is the sum of the sizes that are waiting. What happens
    when it is `full` is its owner's to say: the inbox is not filled, the outbox is given up. most:
    items that make it full, too; 0: any number."""

    def __init__(self, limit: int, most: int = 0) -> None:
        self.limit = limit
        self._most = most
        self.size = 0
        self._items: deque[tuple[T, int]] = deque()
        self._filled = asyncio.Event()
        self._drained = asyncio.Event()
        self._drained.set()

    def put(self, item: T, size: int) -> None:
        """Always accepted; ask `full` or wait for `room` before."""
        self._items.append((item, size))
        self.size += size
        self._filled.set()
        if self.full:
            self._drained.clear()

    @property
    def full(self) -> bool:
        """Whether as much as the limit is waiting."""
        return self.size >= self.limit or 0 < self._most <= len(self._items)

    def clear(self) -> None:
        """Forget what waits."""
        self._items.clear()
        self.size = 0
        self._filled.clear()
        self._drained.set()

    async def room(self) -> None:
        """Returns when it is not full."""
        await self._drained.wait()

    async def take(self, most: int) -> list[T]:
        """At least one item; more while they stay within `most` bytes together, `MOST_TAKEN` of
        them at most."""
        await self._filled.wait()
        taken: list[T] = []
        total = 0
        while self._items and len(taken) < MOST_TAKEN:
            if taken and total + self._items[0][1] > most:
                break
            item, size = self._items.popleft()
            taken.append(item)
            total += size
        self.size -= total
        if not self._items:
            self._filled.clear()
        if not self.full:
            self._drained.set()
        return taken


class State(Enum):
    """Of a session, in this order; CLOSING and OVERFLOWED may be left out."""

    OPEN = auto()
    CLOSING = auto()  # what is queued is still sent, and then the close frame; nothing is added
    OVERFLOWED = auto()  # the client does not read: what is queued is given up
    ENDED = auto()


class Outbox:
    """Holds `limit` characters for a client that is slow; the policy for more is to close the
    session. From the half of it on there is no room for answers to more that the client may ask.
    kept: characters that were sent and may be asked for again.

    close_code: of the close frame, whoever sent it; 1006 while there is none. reason: why we close.
    bytes_sent: of frames, in characters.
    """

    def __init__(self, limit: int, kept: int) -> None:
        self.state = State.OPEN
        self.close_code = 1006
        self.reason: str | None = None
        self.bytes_sent = 0
        self._limit = limit
        self._log = EventLog(kept)
        self._close: Close | None = None
        self._filled = asyncio.Event()
        self._overflowed = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()

    def send(self, frame: Json) -> None:
        """Queue it, or give the session up if there is no room."""
        if self._log.unsent >= self._limit:
            self._overflow()
            return
        self._log.put(_text(frame), frame.get("event_id"))
        self._filled.set()
        if self._log.unsent > self._limit // 2:
            self._room.clear()

    async def room(self) -> None:
        """Returns when there is some for answers to more. A client that takes nothing meanwhile,
        for `TAKE_SECONDS`, is given up."""
        while not self._room.is_set() and self.state is State.OPEN:
            sent = self.bytes_sent
            try:
                async with asyncio.timeout(TAKE_SECONDS):
                    await self._room.wait()
            except TimeoutError:
                if self.bytes_sent == sent and self.state is State.OPEN:
                    self._overflow()

    def _overflow(self) -> None:
        self.state = State.OVERFLOWED
        self.close_code, self.reason = 1013, "the client reads too slowly"
        self._overflowed.set()

    def close(self, close: Close) -> None:
        """After what is already queued; the first to say so is heard."""
        if self.state is State.OPEN:
            self.state = State.CLOSING
            self.reason = close.reason
            self._close = close
            self._filled.set()

    def was_closed(self, code: int) -> None:
        """The client closed, or went; it counts only if we had not begun to."""
        if self.state is State.OPEN:
            self.close_code = code

    def rewind(self, after: str) -> bool:
        """What is written next is what follows that event; False if that is not all here."""
        return self._log.rewind(after)

    def greet(self, frame: Json) -> None:
        """Send this first, to the socket that is written to next and to no later one."""
        self._log.put_first(_text(frame), frame.get("event_id"))
        self._filled.set()

    async def write(self, websocket: WebSocket, is_over: Callable[[], bool]) -> None:
        """Send what is queued, until it is closed, the client is gone, or `is_over`: what is queued
        then is for another socket."""
        self._filled.set()  # there may be something that the socket before was not given
        try:
            while True:
                await self._filled.wait()
                if is_over():
                    return
                texts = self._log.take(BATCH, MOST_TAKEN)
                if self._log.unsent <= self._limit // 2:
                    self._room.set()
                for text in texts:
                    await websocket.send_text(text)
                    self.bytes_sent += len(text)
                if self._log.unsent:
                    continue
                if self._close is not None:
                    self.close_code = self._close.code
                    await websocket.close(self._close.code, self._close.reason)
                    return
                self._filled.clear()
        except (WebSocketDisconnect, OSError, RuntimeError):
            # The client is gone; the reader learns the close code, if there is one.
            await asyncio.sleep(CLOSE_SECONDS)

    async def give_up(self, websocket: WebSocket) -> None:
        """Once nothing more can be queued: try to say why, and go."""
        await self._overflowed.wait()
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await websocket.close(self.close_code, self.reason)
        except (TimeoutError, WebSocketDisconnect, OSError, RuntimeError):
            pass


def _text(frame: Json) -> str:
    """As it is written, for escaped a Chinese text is six times as long; escaped where it is half
    of a character, which no socket sends."""
    text = json.dumps(frame, separators=(",", ":"), ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(frame, separators=(",", ":"))
    return text
