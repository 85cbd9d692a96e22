"""Errors in the words of the API that was asked. Pure ASGI."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

Wording = Callable[[str, str, int], tuple[dict[str, Any], dict[str, str]]]
"""(message, id of the request, status) -> body and headers of the answer."""


IsTheirs = Callable[[Scope], bool]
"""Whether an HTTP request is one of that API."""


class ErrorWording:
    """wordings: the first whose request it is. Whatever refused it, its message is kept."""

    def __init__(self, app: ASGIApp, wordings: Sequence[tuple[IsTheirs, Wording]]) -> None:
        self._app = app
        self._wordings = wordings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        found = None
        if scope["type"] == "http":
            found = next((wording for is_, wording in self._wordings if is_(scope)), None)
        if found is None:
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
                body = _reword(found, start, b"".join(parts))
                await send(start)
                await send({"type": "http.response.body", "body": body})

        await self._app(scope, receive, worded)


def _reword(wording: Wording, start: Message, body: bytes) -> bytes:
    told = json.loads(body)["error"]["message"]
    headers = MutableHeaders(scope=start)
    content, more = wording(told, headers.get("x-request-id", ""), start["status"])
    said = json.dumps(content).encode()
    headers.update({**more, "content-length": str(len(said))})
    return said
