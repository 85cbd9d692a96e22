"""Errors of some paths in the words of the API that they belong to. Pure ASGI."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from typing import Any

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

Wording = Callable[[str, str, int], tuple[dict[str, Any], dict[str, str]]]
"""(message, id of the request, status) -> body and headers of the answer."""


class ErrorWording:
    """paths: whose errors they are. Whatever refused a request, its message is kept."""

    def __init__(self, app: ASGIApp, paths: Collection[str], wording: Wording) -> None:
        self._app = app
        self._paths = frozenset(paths)
        self._wording = wording

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http" or scope["path"] not in self._paths:
            await self._app(scope, receive, send)
            return
        start: Message | None = None  # of an error
        parts: list[bytes] = []

        async def worded(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start" and message["status"] >= 400:
                start = message
                return
            if start is None:
                await send(message)
                return
            parts.append(message.get("body", b""))
            if not message.get("more_body", False):
                body = self._reword(start, b"".join(parts))
                await send(start)
                await send({"type": "http.response.body", "body": body})

        await self._app(scope, receive, worded)

    def _reword(self, start: Message, body: bytes) -> bytes:
        told = json.loads(body)["error"]["message"]
        headers = MutableHeaders(scope=start)
        content, more = self._wording(told, headers.get("x-request-id", ""), start["status"])
        said = json.dumps(content).encode()
        headers.update({**more, "content-length": str(len(said))})
        return said
