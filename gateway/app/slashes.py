"""Paths of the API with a slash too many in the end. Pure ASGI."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send


class TrailingSlashes:
    """Answers as without. A redirect would name the scheme and the host that are seen here, and so
    lead clients of a proxy that has the certificate out of TLS."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] == "http" and scope["path"].startswith("/v1/"):
            scope = {**scope, "path": scope["path"].rstrip("/")}
        await self._app(scope, receive, send)
