"""A span for each request and socket, under the caller's, if it names one (`traceparent`). Pure
ASGI.

Its name is the path as it is served, so that nobody can make more names; and no query is in it: its
values are the client's, words to look for and tokens of sessions among them.
"""

from __future__ import annotations

from typing import Any

from opentelemetry.instrumentation.asgi import OpenTelemetryMiddleware, get_default_span_details
from opentelemetry.sdk.trace import TracerProvider
from starlette.routing import Match
from starlette.types import ASGIApp, Receive, Scope, Send

_WHOLE = "lookhear.whole_scope"  # in the scope that the instrumentation reads


class TracedRequests:
    """provider: of the tracer. Whatever the instrumentation sees of a request, `app` sees all."""

    def __init__(self, app: ASGIApp, provider: TracerProvider) -> None:
        self._app = app
        self._traced = OpenTelemetryMiddleware(
            self._serve,
            default_span_details=_details,
            tracer_provider=provider,
            exclude_spans=["receive", "send"],
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or socket."""
        await self._traced({**scope, "query_string": b"", _WHOLE: scope}, receive, send)

    async def _serve(self, shown: Scope, receive: Receive, send: Send) -> None:
        await self._app(shown[_WHOLE], receive, send)


def _details(shown: Scope) -> tuple[str, dict[str, Any]]:
    routes = shown["app"].routes
    found = (route.path for route in routes if route.matches(shown)[0] is not Match.NONE)
    return get_default_span_details({**shown, "path": next(found, "")})
