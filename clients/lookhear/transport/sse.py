"""Server-sent events over plain HTTP: a POST whose answer comes line by line.

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
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any

from lookhear.errors import ConnectionFailed, LookhearError, in_words
from lookhear.transport.address import Server, Upload

_MAX_LINES = 1000  # that wait to be taken

Line = str | Exception | None
"""A line without its end; None after the last one."""


async def post_events(
    server: Server, path: str, body: Mapping[str, Any] | Upload, timeout: float | None = 600.0
) -> AsyncGenerator[str, None]:
    """POST JSON, or an upload, and yield the `data` of each event of the answer. Closing hangs up.

    timeout: seconds that the server may be silent. ServerError, ConnectionFailed, ProtocolError.
    """
    loop = asyncio.get_running_loop()
    lines: asyncio.Queue[Line] = asyncio.Queue()  # of `_MAX_LINES`: `_Request` sees to it

    def pass_on(line: Line) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody listens
            loop.call_soon_threadsafe(lines.put_nowait, line)

    upload = body if isinstance(body, tuple) else (json.dumps(body).encode(), "application/json")
    request = _Request(server, path, upload, timeout, pass_on)
    request.start()
    data: list[str] = []
    try:
        while (line := await lines.get()) is not None:
            request.taken()
            if isinstance(line, Exception):
                raise line
            if line.startswith("data:"):
                data.append(line[5:].removeprefix(" "))
            elif not line and data:
                yield "\n".join(data)
                data.clear()
    finally:
        request.hang_up()


class _Request(threading.Thread):
    """Blocking HTTP; its lines are passed on as they come. While `_MAX_LINES` of them wait to be
    taken, nothing is read, and the socket stops the server."""

    def __init__(
        self,
        server: Server,
        path: str,
        upload: Upload,
        timeout: float | None,
        pass_on: Callable[[Line], None],
    ) -> None:
        super().__init__(name="lookhear-answer", daemon=True)
        self._room = threading.Semaphore(_MAX_LINES)
        self._server = server
        self._timeout = timeout
        self._pass_on = pass_on
        body, content_type = upload
        headers = {"Content-Type": content_type, "Accept": "text/event-stream"}
        self._request = urllib.request.Request(
            server.http_url(path), data=body, headers=headers | server.headers()
        )
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
            while (line := answer.readline()) and not self._gone:
                self._room.acquire()
                self._pass_on(line.decode("utf-8", "replace").rstrip("\r\n"))

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
        """One line was: there is room for another."""
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
