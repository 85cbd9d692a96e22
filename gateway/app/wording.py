"""Errors, and ids of requests, in the words of the API that was asked. Pure ASGI."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lookhear.gateway.http.errors import answer_bug

Wording = Callable[[str, str, int], tuple[dict[str, Any], dict[str, str]]]
"""(message, id of the request, status) -> body and headers of the answer."""


@dataclass(frozen=True, slots=True)
class Words:
    """Of one API. is_theirs: whether an HTTP request is one of it. request_id: a header of all its
    answers that its clients look for."""

    is_theirs: Callable[[Scope], bool]
    denial: Wording
    request_id: str | None = None


class ErrorWording:
    """words: the first whose request it is. Whatever refused it, its message is kept."""

    def __init__(self, app: ASGIApp, words: Sequence[Words]) -> None:
        self._app = app
        self._words = words

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        words = None
        if scope["type"] == "http":
            words = next((words for words in self._words if words.is_theirs(scope)), None)
        if words is None:
            await self._app(scope, receive, send)
            return
        start: Message | None = None  # of an error
        has_begun = False
        parts: list[bytes] = []

        async def worded(message: Message) -> None:
            nonlocal start, has_begun
            if message["type"] == "http.response.start":
                has_begun = True
                headers = MutableHeaders(scope=message)
                if words.request_id is not None:
                    headers[words.request_id] = headers.get("x-request-id", "")
                if message["status"] >= 400:
                    start = message
                    return
            if start is None:
                await send(message)
                return
            parts.append(message.get("body", b""))
            if not message.get("more_body", False):
                body = _reword(words.denial, start, b"".join(parts))
                await send(start)
                await send({"type": "http.response.body", "body": body})

        try:
            await self._app(scope, receive, worded)
        except Exception as error:
            # Starlette answers a bug outside of all of us. It raises, too: for the log.
            if not has_begun:
                answer = await answer_bug(Request(scope), error)
                await answer(scope, receive, worded)
            raise


def _reword(denial: Wording, start: Message, body: bytes) -> bytes:
    """What is no error of ours stays as it is: `/ready` says how it is, and means the same to
    everybody; of a range that a file does not have starlette tells in plain words."""
    try:
        told = json.loads(body)
    except ValueError:
        return body
    if not isinstance(told, dict) or "error" not in told:
        return body
    headers = MutableHeaders(scope=start)
    content, more = denial(
        told["error"]["message"], headers.get("x-request-id", ""), start["status"]
    )
    said = json.dumps(content).encode()
    headers.update({**more, "content-length": str(len(said))})
    return said
