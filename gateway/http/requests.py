"""The body of a request, bounded, and its client, who may go away."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect, Request
from starlette.types import Message

from lookhear.gateway.http.errors import ApiError

T = TypeVar("T")

BODY = "lookhear.body"  # in an ASGI scope: a BodyAccount


@dataclass(slots=True)
class BodyAccount:
    """Bytes of a body that the process holds. give_back: hears how many, when it no longer does."""

    give_back: Callable[[int], None]
    received: int = 0
    is_closed: bool = False

    def close(self) -> None:
        """The body was worked on, or given up. At the latest its request's answer says so."""
        if not self.is_closed:
            self.is_closed = True
            self.give_back(self.received)


def done_with_body(request: Request) -> None:
    """Nothing of its body is held any longer, though its answer is to come."""
    account: BodyAccount = request.scope[BODY]
    account.close()


def limited(request: Request, limit: int, param: str = "file") -> Request:
    """The same request; reading more than `limit` bytes of its body raises ApiError 413, whether
    its length is declared or not. param: what is large, if the body is."""
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > limit:
        raise _too_large(limit, int(declared), param)
    received = 0

    async def receive() -> Message:
        nonlocal received
        message = await request.receive()
        received += len(message.get("body", b""))
        if received > limit:
            raise _too_large(limit, received, param)
        return message

    return Request(request.scope, receive)


async def body_of(request: Request, limit: int) -> bytearray:
    """All of it. Raises as `limited`. Not `Request.body`: to join the pieces of a large one in the
    end would stop the event loop for 0.1 s."""
    body = bytearray()
    async for piece in limited(request, limit, "body").stream():
        body += piece
    return body


def _too_large(limit: int, got: int, param: str) -> ApiError:
    message = f"{param}: expected a request of at most {limit} bytes, got {got} or more"
    code = "file_too_large" if param == "file" else "request_too_large"
    return ApiError(413, message, code=code, param=param)


async def until_gone(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`. Raises ClientDisconnect if the client hangs up first; the work is
    cancelled then. The body must have been read: the next message of the request is its end."""
    task = asyncio.create_task(work)
    watch = asyncio.create_task(_hung_up(request))
    try:
        await asyncio.wait({task, watch}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientDisconnect
        return task.result()
    finally:
        for each in (task, watch):
            each.cancel()
        await asyncio.gather(task, watch, return_exceptions=True)


async def _hung_up(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
