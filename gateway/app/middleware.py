"""What every HTTP request passes through: its id, access, and the count. Pure ASGI."""

from __future__ import annotations

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lookhear.gateway.http.access import Denied
from lookhear.gateway.http.errors import REQUEST_ID, error_body
from lookhear.gateway.services.services import Services

PATHS = (
    "/",
    "/health",
    "/metrics",
    "/ready",
    "/v1/audio/transcriptions",
    "/v1/audio/translations",
    "/v1/chat/completions",
    "/v1/models",
)


def needs_key(path: str) -> bool:
    """The API and the numbers; the browser page and the health checks are open."""
    return path.startswith("/v1/") or path == "/metrics"


class AccessMiddleware:
    """Adds `x-request-id`, checks Host, Origin and key, counts. WebSockets pass: they check
    themselves, since their refusals look different."""

    def __init__(self, app: ASGIApp, services: Services) -> None:
        self._app = app
        self._services = services

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let one request pass, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = scope[REQUEST_ID] = self._services.ids("req")
        status = 500

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)["x-request-id"] = request_id
            await send(message)

        path = scope["path"]
        headers = Headers(scope=scope)
        try:
            self._services.access.check_place(headers)
            if needs_key(path):
                self._services.access.check_key(headers)
        except Denied as denied:
            self._services.metrics.refused.labels(denied.code).inc()
            body = error_body(denied.message, denied.type, denied.code)
            await JSONResponse(body, denied.status)(scope, receive, send_with_id)
        else:
            await self._app(scope, receive, send_with_id)
        finally:
            self._services.metrics.requests.labels(_label(path), str(status)).inc()


def _label(path: str) -> str:
    """A path as a metric label: only the known ones, so that nobody can make more."""
    if path.startswith("/v1/models/"):
        return "/v1/models/{id}"
    return path if path in PATHS else "other"
