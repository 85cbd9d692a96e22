"""A WebSocket that asks to come in, and how its client is told that it may not."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence

from starlette.responses import JSONResponse
from starlette.websockets import WebSocket, WebSocketDisconnect

from lookhear.gateway.checks.checks import ProtocolError
from lookhear.gateway.http.access import Denied, echoed
from lookhear.gateway.realtime.protocol.dialect import Close, Dialect
from lookhear.gateway.realtime.protocol.events import Refused
from lookhear.gateway.services.services import services
from lookhear.gateway.sockets.connections import network
from lookhear.gateway.telemetry.log import address, log_event


class Handshake:
    """dialects: those of its path; the first one greets. is_page: it is a browser's page, which is
    shown nothing of a handshake that is refused."""

    def __init__(self, websocket: WebSocket, dialects: Sequence[type[Dialect]]) -> None:
        self.websocket = websocket
        self.gateway = services(websocket)
        self.is_page = "origin" in websocket.headers
        self.offered: list[str] = list(websocket.scope.get("subprotocols", []))
        self.subprotocol = echoed(self.offered)
        self.speak(dialects)

    def speak(self, dialects: Sequence[type[Dialect]]) -> None:
        """These instead of those of its path."""
        self.dialects = dialects
        self.dialect = dialects[0](self.websocket.query_params, self.gateway.ids)

    @property
    def client(self) -> str:
        """Whose it is: a key's or a network's."""
        key = self.gateway.access.key_name(self.websocket.headers, self.offered)
        if key is not None:
            return key
        return network(self.websocket.client.host) if self.websocket.client else ""

    async def deny(self, denied: Denied, close: Close | None) -> None:
        """Refuse it. close: say why not inside, and close so."""
        # What a client sent is repeated in it.
        log_event("session.refused.words", level=logging.DEBUG, reason=denied.message)
        problem = ProtocolError(denied.message, code=denied.code, type=denied.type)
        if close is not None:
            await self.turn_away(problem, close)
            return
        client = address(self.websocket.scope)
        log_event("session.refused", code=denied.code, status=denied.status, client=client)
        self.gateway.refusals.add(denied.code, is_clients=denied.status < 500)
        answer = self.dialect.denial(problem, denied.status)
        headers = dict(answer.headers)
        if denied.retry_after:
            headers["retry-after"] = str(denied.retry_after)
        response = JSONResponse(answer.body, denied.status, headers)
        await self.websocket.send_denial_response(response)

    async def turn_away(self, problem: ProtocolError, close: Close) -> None:
        """Accept it, say why not, close."""
        client = address(self.websocket.scope)
        log_event("session.refused", code=problem.code, close_code=close.code, client=client)
        self.gateway.refusals.add(problem.code, is_clients=problem.type != "server_error")
        try:
            await self.websocket.accept(self.subprotocol)
            for frame in self.dialect.render(Refused(problem)):
                await self.websocket.send_text(json.dumps(frame))
            close = self.dialect.closing(close)
            await self.websocket.close(close.code, close.reason)
        except WebSocketDisconnect:
            pass
