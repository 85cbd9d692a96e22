"""What every HTTP request passes through: its id, access, the count and its line in the log. Pure
ASGI."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Collection
from dataclasses import dataclass

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lookhear.engine.config.log import bind
from lookhear.gateway.app import browser
from lookhear.gateway.http.access import Denied, leaving
from lookhear.gateway.http.errors import REQUEST_ID, error_body
from lookhear.gateway.services.services import Services
from lookhear.gateway.telemetry.log import address, log_event

PROBES = ("/health", "/metrics", "/ready")  # asked every few seconds: worth a line to nobody
MAX_SHOWN = 200  # characters of a path in the log


def needs_key(path: str) -> bool:
    """All but the health checks and the browser page: so no new route is open by an oversight."""
    return path not in ("/health", "/ready") and not browser.is_open(path)


class AccessMiddleware:
    """Adds `x-request-id`, checks Host, Origin and key, counts, logs. WebSockets pass: they check
    themselves, since their refusals look different. paths: those that are served."""

    def __init__(self, app: ASGIApp, services: Services, paths: Collection[str]) -> None:
        self._app = app
        self._services = services
        self._paths = frozenset(paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let one request pass, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        services = self._services
        request_id = scope[REQUEST_ID] = services.ids("req")
        bind(request=request_id)  # for good: the task is this request's, and uvicorn logs after us
        began, answer = services.clock(), _Answer()

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)["x-request-id"] = request_id
            answer.note(message)
            await send(message)

        path = scope["path"]
        headers = Headers(scope=scope)
        try:
            services.access.check_place(headers)
            if needs_key(path):
                services.access.check_key(headers)
            is_work = scope["method"] == "POST"
            if is_work and services.is_leaving:
                raise leaving()
        except Denied as denied:
            services.refusals.add(denied.code, is_clients=denied.status < 500)
            answer.refusal = denied.code
            body = error_body(denied.message, denied.type, denied.code)
            retry = {"retry-after": str(denied.retry_after)} if denied.retry_after else None
            await JSONResponse(body, denied.status, retry)(scope, receive, send_with_id)
        else:
            with self._services.requests.one() if is_work else contextlib.nullcontext():
                await self._app(scope, receive, send_with_id)
        finally:
            services.metrics.requests.labels(self._label(path), str(answer.status)).inc()
            log_event(
                "http.request",
                level=logging.DEBUG if path in PROBES else logging.INFO,
                method=scope["method"],
                path=path[:MAX_SHOWN],  # never the query: its values are the client's
                status=answer.status,
                code=answer.refusal,
                ms=round((services.clock() - began) * 1000, 1),
                bytes=answer.size,
                complete=None if answer.is_complete else False,
                client=address(scope),
            )

    def _label(self, path: str) -> str:
        """A path as a metric label: only the known ones, so that nobody can make more."""
        if path in self._paths:
            return path
        kept = ("/v1/models/", "/v1/responses/")
        return next((f"{known}{{id}}" for known in kept if path.startswith(known)), "other")


@dataclass(slots=True)
class _Answer:
    """status: 500 until one is sent: then our own bug is answered behind us. size: bytes of the
    body. is_complete: to its end, as far as we know."""

    status: int = 500
    size: int = 0
    is_complete: bool = False
    refusal: str | None = None

    def note(self, message: Message) -> None:
        """Of what is sent."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
        elif message["type"] == "http.response.body":
            self.size += len(message.get("body", b""))
            self.is_complete = not message.get("more_body", False)
