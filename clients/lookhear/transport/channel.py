"""One realtime socket on which events are asked and answered: who waits for what, and its errors.

A *receiver* task reads the socket for as long as it is open. Whoever waits for a reply leaves a
`Waiter`; an error that names its event is raised there. All else goes to `on_message`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed, InvalidHandshake

from lookhear.errors import ConnectionFailed, LookhearError, ProtocolError, ServerError
from lookhear.transport.address import Server
from lookhear.transport.realtime import (
    lost_connection,
    open_realtime,
    parse_frame,
    told_error,
)

_CLOSE_SECONDS = 2.0  # after an error that announces a close

Message = Mapping[str, Any]


def _promise() -> asyncio.Future[Message]:
    return asyncio.get_running_loop().create_future()


class ChannelState(Enum):
    """Where a channel is in its life: NEW -> OPEN -> LOST or OVER, or at once to one of these."""

    NEW = auto()  # nobody has opened it yet
    OPEN = auto()
    LOST = auto()  # gone, or could not be had, for a reason that may pass: worth another one
    OVER = auto()  # gone for good


@dataclass(slots=True, eq=False)
class Waiter:
    """Somebody waits for the reply to one event of ours, or for the error that it caused."""

    event_id: str
    matches: Callable[[Message], bool]
    reply: asyncio.Future[Message] = field(default_factory=_promise)


class Channel:
    """One socket, and whoever waits for replies on it.

    on_message: told every event but errors, before its waiter is. on_error: told the errors that
    nobody waits for, and which event of ours they name. on_lost: told once why the socket is gone.
    answer_seconds: how long the server may be silent when a reply is due.
    """

    def __init__(
        self,
        server: Server,
        on_message: Callable[[Message], None],
        on_error: Callable[[str, ServerError], None],
        on_lost: Callable[[LookhearError], None],
        answer_seconds: float,
    ) -> None:
        self._server = server
        self._on_message = on_message
        self._on_error = on_error
        self._on_lost = on_lost
        self._answer_seconds = answer_seconds
        self._socket: ClientConnection | None = None
        self._receiver: asyncio.Task[None] | None = None
        self._waiters: list[Waiter] = []
        self._held_error: ServerError | None = None  # said before a close
        self.lost: LookhearError | None = None  # why nothing can be asked any more
        self.state = ChannelState.NEW

    async def open(self, query: Mapping[str, str]) -> None:
        """ConnectionFailed, ServerError and its kinds."""
        try:
            self._socket = await open_realtime(self._server, query)
        except (InvalidHandshake, OSError, TimeoutError) as error:
            lost, transient = lost_connection(self._server, error)
            self.state = _state_after(transient)
            raise lost from error
        except ConnectionFailed:
            self.state = _state_after(transient=False)
            raise
        self.state = ChannelState.OPEN
        self._receiver = asyncio.create_task(self._receive(self._socket))

    async def aclose(self) -> None:
        """Close the socket; the receiver has ended afterwards."""
        if self._socket is not None:
            await self._socket.close()
        if self._receiver is not None:
            await asyncio.gather(self._receiver, return_exceptions=True)

    async def send(self, event: Message) -> None:
        """ConnectionFailed and ServerError: as it was lost."""
        if self.lost is not None:
            raise self.lost
        if self._socket is None or self._receiver is None:
            raise ConnectionFailed("the conversation is not open: enter it with `async with`")
        try:
            await self._socket.send(json.dumps(event))
        except ConnectionClosed as error:
            await asyncio.wait([self._receiver])  # it finds out why
            raise self.lost or lost_connection(self._server, error)[0] from error

    async def ask(self, event: Message, matches: Callable[[Message], bool]) -> Message:
        """Send an event and wait for its reply. ServerError and its kinds, ConnectionFailed."""
        with self.waiting(matches) as waiter:
            await self.send({**event, "event_id": waiter.event_id})
            async with self.reply_timeout():
                return await waiter.reply

    @contextlib.contextmanager
    def waiting(self, matches: Callable[[Message], bool]) -> Generator[Waiter, None, None]:
        """Wait for the first event that matches; errors find the waiter by its `event_id`."""
        waiter = Waiter(new_event_id(), matches)
        self._waiters.append(waiter)
        try:
            yield waiter
        finally:
            self._waiters.remove(waiter)
            if not waiter.reply.cancel() and not waiter.reply.cancelled():
                waiter.reply.exception()  # now it counts as seen

    @contextlib.asynccontextmanager
    async def reply_timeout(self) -> AsyncGenerator[None, None]:
        """For a reply that is due. ConnectionFailed if it takes too long."""
        try:
            async with asyncio.timeout(self._answer_seconds):
                yield
        except TimeoutError:
            raise ConnectionFailed(f"{self._server.base_url} has stopped answering") from None

    async def await_close(self, error: LookhearError) -> None:
        """After an error: if it was the last word of the server before it closes, wait for that.
        `lost` is then this error."""
        if error is self._held_error and self._receiver is not None:
            await asyncio.wait([self._receiver], timeout=_CLOSE_SECONDS)

    def end(self, error: LookhearError, transient: bool = False) -> None:
        """From now on nothing can be sent, for this reason. transient: a new channel may do."""
        self.lost, self.state = error, _state_after(transient)

    # --- the receiver -----------------------------------------------------------------------------

    async def _receive(self, socket: ClientConnection) -> None:
        try:
            while True:
                self._take(parse_frame(await socket.recv()))
        except (ConnectionClosed, OSError) as error:
            self.end(*lost_connection(self._server, error, self._held_error))
        except LookhearError as error:
            self.end(error)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            self.end(ProtocolError(f"a server event is not well formed: {error!r}"))
        assert self.lost is not None, "it has just ended"
        for waiter in self._waiters:
            if not waiter.reply.done():
                waiter.reply.set_exception(self.lost)
        self._on_lost(self.lost)
        await socket.close()

    def _take(self, message: dict[str, Any]) -> None:
        if message.get("type") == "error":
            self._take_error(message)
            return
        self._on_message(message)
        for waiter in self._waiters:
            if not waiter.reply.done() and waiter.matches(message):
                waiter.reply.set_result(message)
                return

    def _take_error(self, message: Message) -> None:
        """To whoever it concerns."""
        error, closes = told_error(message)
        if closes:
            self._held_error = error
        cause = message["error"].get("event_id")
        for waiter in self._waiters:
            # The server answers in order: an error without a name is about the oldest.
            if not waiter.reply.done() and cause in (None, "", waiter.event_id):
                waiter.reply.set_exception(error)
                return
        self._on_error(str(cause), error)


def new_event_id() -> str:
    """A name for an event of ours, which errors about it will carry."""
    return f"event_{secrets.token_hex(12)}"


def _state_after(transient: bool) -> ChannelState:
    return ChannelState.LOST if transient else ChannelState.OVER
