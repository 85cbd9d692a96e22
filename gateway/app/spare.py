"""What is answered when there are as many connections as there may be."""

from __future__ import annotations

from starlette.datastructures import MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lookhear.gateway.app.middleware import PROBES
from lookhear.gateway.http.errors import error_body
from lookhear.gateway.services.services import Services
from lookhear.gateway.sockets.connections import FULL

RETRY_AFTER = 5  # seconds


class SpareApp:
    """Whoever asks how we are is told; all others are to come again. Either way it is the last
    request of its connection."""

    def __init__(self, app: ASGIApp, services: Services) -> None:
        self._app = app
        self._services = services

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""

        async def last(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)["connection"] = "close"
            await send(message)

        if scope["path"] in PROBES:
            await self._app(scope, receive, last)
            return
        self._services.refusals.add(FULL)
        message = "all connections that this server or your address may have are taken; try again"
        body = error_body(message, "server_error", FULL)
        await JSONResponse(body, 503, {"retry-after": str(RETRY_AFTER)})(scope, receive, last)
