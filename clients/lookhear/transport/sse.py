"""HTTP that can be left: an answer that comes whole, or line by line as server-sent events.

The standard library's HTTP blocks, so each request has a thread of its own, and leaving early shuts
the socket down under it: the server sees the client go and stops the work.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from typing import Any

from lookhear.errors import ConnectionFailed, LookhearError, in_words
from lookhear.transport.address import Server, Upload

_MAX_LINES = 1000  # that wait to be taken

Piece = bytes | Exception | None
"""Of an answer; None after the last one."""


async def post_events(
    server: Server, path: str, body: Mapping[str, Any] | Upload, timeout: float | None = 600.0
) -> AsyncGenerator[str, None]:
    """POST JSON, or an upload, and yield the `data` of each event of the answer. Closing hangs up.

    timeout: seconds that the server may be silent. ServerError, ConnectionFailed, ProtocolError.
    """
    upload = body if isinstance(body, tuple) else (json.dumps(body).encode(), "application/json")
    request = _request(server, path, upload)
    request.add_header("Accept", "text/event-stream")
    data: list[str] = []
    async with contextlib.aclosing(_pieces(server, request, timeout, _lines)) as lines:
        async for raw in lines:
            line = raw.decode("utf-8", "replace").rstrip("\r\n")
            if line.startswith("data:"):
                data.append(line[5:].removeprefix(" "))
            elif not line and data:
                yield "\n".join(data)
                data.clear()


async def fetch(
    server: Server, path: str, upload: Upload | None = None, timeout: float | None = 30.0
) -> bytes:
    """As `Server.request`, without blocking. Cancelling hangs up."""
    request = _request(server, path, upload)
    async with contextlib.aclosing(_pieces(server, request, timeout, _whole)) as pieces:
        return b"".join([piece async for piece in pieces])


def _request(server: Server, path: str, upload: Upload | None) -> urllib.request.Request:
    body, content_type = upload or (None, None)
    headers = server.headers() | ({"Content-Type": content_type} if content_type else {})
    return urllib.request.Request(server.http_url(path), data=body, headers=headers)


def _lines(answer: http.client.HTTPResponse) -> Iterator[bytes]:
    """As they come, with their ends."""
    return iter(answer.readline, b"")


def _whole(answer: http.client.HTTPResponse) -> Iterator[bytes]:
    """All at once: only so it is noticed if some is missing."""
    yield answer.read()


async def _pieces(
    server: Server,
    request: urllib.request.Request,
    timeout: float | None,
    cut: Callable[[http.client.HTTPResponse], Iterator[bytes]],
) -> AsyncGenerator[bytes, None]:
    """What `cut` makes of the answer. Closing hangs up."""
    loop = asyncio.get_running_loop()
    pieces: asyncio.Queue[Piece] = asyncio.Queue()  # of `_MAX_LINES`: `_Request` sees to it

    def pass_on(piece: Piece) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody listens
            loop.call_soon_threadsafe(pieces.put_nowait, piece)

    thread = _Request(server, request, timeout, cut, pass_on)
    thread.start()
    try:
        while (piece := await pieces.get()) is not None:
            thread.taken()
            if isinstance(piece, Exception):
                raise piece
            yield piece
    finally:
        thread.hang_up()


class _Request(threading.Thread):
    """Blocking HTTP; the pieces of its answer are passed on as they come. While `_MAX_LINES` of
    them wait to be taken, nothing is read, and the socket stops the server."""

    def __init__(
        self,
        server: Server,
        request: urllib.request.Request,
        timeout: float | None,
        cut: Callable[[http.client.HTTPResponse], Iterator[bytes]],
        pass_on: Callable[[Piece], None],
    ) -> None:
        super().__init__(name="lookhear-answer", daemon=True)
        self._room = threading.Semaphore(_MAX_LINES)
        self._server = server
        self._request = request
        self._timeout = timeout
        self._cut = cut
        self._pass_on = pass_on
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._gone = False  # nobody wants the answer any more

    def run(self) -> None:
        try:
            self._read()
        except urllib.error.HTTPError as error:
            with error:
                self._pass_on(self._refusal(error))
        except LookhearError as error:
            self._pass_on(error)
        except (OSError, http.client.HTTPException, ValueError) as error:
            # ValueError: what the standard library says when it reads from a socket that was closed
            why = f"cannot reach {self._server.base_url}: {in_words(error)}"
            self._pass_on(ConnectionFailed(why))
        else:
            self._pass_on(None)

    def _read(self) -> None:
        opener = self._server.opener(*_handlers(self._connected))
        with opener.open(self._request, timeout=self._timeout) as answer:
            for piece in self._cut(answer):
                if self._gone:
                    return
                self._room.acquire()
                self._pass_on(piece)

    def _refusal(self, error: urllib.error.HTTPError) -> LookhearError:
        try:
            return self._server.refusal(error.code, error.read())
        except (OSError, http.client.HTTPException):  # it broke off in its refusal
            return self._server.refusal(error.code, b"")

    def _connected(self, connection: socket.socket) -> None:
        with self._lock:
            self._socket = connection
            if self._gone:
                raise ConnectionAbortedError("nobody waits for the answer")

    def taken(self) -> None:
        """One piece was: there is room for another."""
        self._room.release()

    def hang_up(self) -> None:
        """Give the answer up, from any thread. The thread ends by itself soon after."""
        with self._lock:
            self._gone = True
            self._room.release()  # it may wait for room
            if self._socket is not None:
                with contextlib.suppress(OSError):  # it is closed already
                    self._socket.shutdown(socket.SHUT_RDWR)


def _handlers(
    connected: Callable[[socket.socket], None],
) -> tuple[urllib.request.HTTPHandler, urllib.request.HTTPSHandler]:
    """urllib's own, which also tell of the socket they open."""

    class Connection(http.client.HTTPConnection):
        def connect(self) -> None:
            super().connect()
            connected(self.sock)

    class SecureConnection(http.client.HTTPSConnection):
        def connect(self) -> None:
            super().connect()
            connected(self.sock)

    class Plain(urllib.request.HTTPHandler):
        def http_open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
            return self.do_open(Connection, request)

    class Secure(urllib.request.HTTPSHandler):
        def https_open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
            return self.do_open(SecureConnection, request)

    return Plain(), Secure()
