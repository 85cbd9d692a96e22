"""A bound on the size of a request body, whether its length is declared or not."""

from __future__ import annotations

from starlette.requests import Request
from starlette.types import Message

from lookhear.gateway.http.errors import ApiError


def limited(request: Request, limit: int, param: str = "file") -> Request:
    """The same request; reading more than `limit` bytes of its body raises ApiError 413. param:
    what is large, if the body is."""
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


def _too_large(limit: int, got: int, param: str) -> ApiError:
    return ApiError(
        413,
        f"{param}: expected a request of at most {limit} bytes, got {got} or more",
        code="file_too_large" if param == "file" else "request_too_large",
        param=param,
    )
