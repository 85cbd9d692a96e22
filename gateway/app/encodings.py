"""Bodies of requests that come compressed (`Content-Encoding`). Pure ASGI.

What is decoded goes through the limits on bodies as if it had come so, a piece at a time: a small
body that becomes a huge one is refused where a huge one is, and never stands in memory. Between
pieces others have the event loop.
"""

from __future__ import annotations

import asyncio
import zlib

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lookhear.gateway.checks.checks import shown
from lookhear.gateway.http.errors import ApiError

ACCEPTED = ("gzip", "deflate")
PIECE = 256 * 1024  # bytes, decoded: less than a millisecond
EITHER = 32 + zlib.MAX_WBITS  # a head of gzip's or of zlib's


class EncodedBodies:
    """Stands outside of what counts bodies."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] == "http":
            named = ", ".join(Headers(scope=scope).getlist("content-encoding")).strip().lower()
            if named not in ("", "identity"):
                receive = _Body(receive, named.removeprefix("x-")).receive
        await self._app(scope, receive, send)


class _Body:
    def __init__(self, receive: Receive, encoding: str) -> None:
        self._receive = receive
        self._encoding = encoding
        self._stream = zlib.decompressobj(EITHER)
        self._left = b""  # that came and is not decoded
        self._is_full = False  # the last piece: there may be more without more that comes
        self._began = self._ended = False

    async def receive(self) -> Message:
        """The next piece, decoded. Raises ApiError."""
        if self._encoding not in ACCEPTED:
            accepted = ", ".join(ACCEPTED)
            why = f"Content-Encoding: expected {accepted} or none, got {shown(self._encoding)}"
            headers = {"accept-encoding": accepted}
            raise ApiError(415, why, code="unsupported_encoding", headers=headers)
        while True:
            if self._left or self._is_full:
                await asyncio.sleep(0)
            elif self._ended:  # what comes next is the end of the connection
                return await self._receive()
            else:
                message = await self._receive()
                if message["type"] != "http.request":
                    return message
                self._left = message.get("body", b"")
                self._began |= bool(self._left)
                self._ended = not message.get("more_body", False)
            piece = self._piece()
            is_last = self._ended and not (self._left or self._is_full)
            if is_last and self._began and not self._stream.eof:
                raise self._broken("its beginning only")
            if piece or is_last:
                return {"type": "http.request", "body": piece, "more_body": not is_last}

    def _piece(self) -> bytes:
        if self._stream.eof and self._left:  # gzip may be several, one behind the other
            self._stream = zlib.decompressobj(EITHER)
        try:
            piece = self._stream.decompress(self._left, PIECE)
        except zlib.error as error:
            raise self._broken(str(error)) from None
        self._left = self._stream.unused_data or self._stream.unconsumed_tail
        self._is_full = len(piece) == PIECE
        return piece

    def _broken(self, got: str) -> ApiError:
        message = f"body: expected {self._encoding}, as Content-Encoding says, got {got}"
        return ApiError(400, message, code="invalid_encoding", param="body")
