"""One WebSocket of a session, from the answer to its handshake to its end. The session may outlive
it, and go on with another one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from enum import Enum, auto
from typing import Any

from starlette.websockets import WebSocket, WebSocketDisconnect

from lookhear.gateway.realtime.protocol.dialect import Close, Dialect, Json
from lookhear.gateway.realtime.session.queues import CLOSE_SECONDS, Outbox, State
from lookhear.gateway.services.services import Services
from lookhear.gateway.sockets.cutting import WireFrame
from lookhear.gateway.sockets.frames import EXTENSION, PacedProtocol
from lookhear.gateway.sockets.shares import Share

TAKEN_OVER = Close(4410, "session resumed elsewhere")
NO_CLOSE_FRAME = 1006


class Ending(Enum):
    """How a session lost a socket."""

    CLOSED = auto()  # one side closed it, or the client read too slowly
    CUT = auto()  # neither did: the network, or whoever was at its other end, went away
    TAKEN_OVER = auto()  # the client came back on a newer one


class Attachment:
    """share: of the session, in the event loop's time. take: gets whole messages while it lasts.
    room: returns when there is room for one more."""

    def __init__(
        self,
        websocket: WebSocket,
        services: Services,
        share: Share,
        *,
        take: Callable[[WireFrame], None],
        room: Callable[[], Awaitable[None]],
    ) -> None:
        self._websocket = websocket
        self._pass_on = take
        self._room = room
        self._services = services
        self._share = share
        self._arrived = websocket.scope.get("extensions", {}).get(EXTENSION)
        self._connection: PacedProtocol | None = None
        self._was_cut = False
        self.is_closed = False  # by the client
        self._is_over = asyncio.Event()  # whatever still comes is not the session's
        self._farewell: Sequence[Json] | None = None

    async def run(
        self,
        outbox: Outbox,
        subprotocol: str | None,
        dialect: Dialect,
        failed: Callable[[Exception], None],
    ) -> Ending:
        """Accept, and serve until it is over. failed: hears what went wrong of ours."""
        told = [(name.encode(), value.encode()) for name, value in dialect.headers.items()]
        try:
            await self._websocket.accept(subprotocol, told)
        except (WebSocketDisconnect, OSError, RuntimeError):
            return Ending.CUT
        jobs: list[Coroutine[Any, Any, Any]] = [
            self._read(outbox),
            self._share.metered(outbox.write(self._websocket, self._is_over.is_set)),
            outbox.give_up(self._websocket),
            self._is_over.wait(),
        ]
        tasks = [asyncio.create_task(job) for job in jobs]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._is_over.set()
            for task in tasks:
                task.cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
        bugs = [outcome for outcome in ended if isinstance(outcome, Exception)]
        for bug in bugs:
            failed(bug)
        if self._farewell is not None:
            await self._say_farewell(self._farewell)
            return Ending.TAKEN_OVER
        is_cut = self._was_cut and outbox.state is State.OPEN and not bugs
        return Ending.CUT if is_cut else Ending.CLOSED

    def leave(self, farewell: Sequence[Json] | None = None) -> None:
        """It is over for the session. farewell: why, if a newer one takes its place."""
        self._farewell = farewell
        self._is_over.set()

    def hold(self) -> None:
        """Read nothing until `release`."""
        if self._connection is not None:
            self._connection.hold()

    def release(self) -> None:
        """Read on after `hold`."""
        if self._connection is not None:
            self._connection.release()

    async def _read(self, outbox: Outbox) -> None:
        connection = self._arrived
        if isinstance(connection, PacedProtocol):  # else a server that is not ours
            self._connection = connection
            gathering, sessions = self._services.gathering, self._services.sessions
            connection.attach(self._take, lambda: gathering.seconds(len(sessions)), self._share)
        while True:
            message = await self._websocket.receive()
            if message["type"] == "websocket.disconnect":
                code = message.get("code") or 1005
                # uvicorn says 1005 of both a close frame without a code and of none at all.
                self._was_cut = (
                    code == NO_CLOSE_FRAME if self._connection is None else self._connection.was_cut
                )
                self.is_closed = not self._was_cut
                outbox.was_closed(code)
                return
            text: str | None = message.get("text")
            self._take(text if text is not None else message.get("bytes") or b"")
            await self._room()

    def _take(self, frame: WireFrame) -> None:
        if not self._is_over.is_set():
            self._pass_on(frame)

    async def _say_farewell(self, frames: Sequence[Json]) -> None:
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                for frame in frames:
                    await self._websocket.send_json(frame)
                await self._websocket.close(TAKEN_OVER.code, TAKEN_OVER.reason)
        except (TimeoutError, WebSocketDisconnect, OSError, RuntimeError):
            pass
