"""The realtime WebSocket as every part of the client opens and reads it."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidProxy, InvalidStatus
from websockets.typing import Subprotocol

from lookhear.errors import (
    AuthenticationError,
    ConnectionFailed,
    LookhearError,
    ProtocolError,
    ServerError,
    in_words,
    server_error,
)
from lookhear.transport.address import Server

# Close codes after which trying again makes sense (1005, 1006: the connection just broke).
RETRIED_CLOSE_CODES = frozenset({1001, 1005, 1006, 1011, 1012, 1013, 1015})
# HTTP statuses of a refused handshake of which the same is true.
RETRIED_STATUSES = frozenset({429, 500, 502, 503, 504})
LONGEST_RETRY_AFTER = 60.0  # seconds: whatever a server says, it is asked again after this
# Errors after which the server closes by itself; the close code says whether to come back.
ERRORS_BEFORE_CLOSE = frozenset({"server_error", "session_expired", "session_idle"})


class Opening:
    """A connection that is being made: to await, or to enter with `async with`. ConnectionFailed:
    the environment names a proxy that cannot be used. Else what websockets raises."""

    def __init__(self, server: Server, made: connect) -> None:
        self._server = server
        self._made = made
        self._socket: ClientConnection | None = None

    def __await__(self) -> Generator[Any, None, ClientConnection]:
        return self._open().__await__()

    async def __aenter__(self) -> ClientConnection:
        self._socket = await self
        return self._socket

    async def __aexit__(self, *_: object) -> None:
        assert self._socket is not None, "not entered"
        await self._socket.close()

    async def _open(self) -> ClientConnection:
        try:
            return await self._made
        except (InvalidProxy, ImportError, ValueError) as error:
            expected = "expected a proxy as http://HOST:PORT in http_proxy or https_proxy"
            if isinstance(error, ImportError):  # a SOCKS proxy
                expected = "a SOCKS proxy needs pip install python-socks"
            failed = f"cannot reach {self._server.base_url}: {expected}; {in_words(error)}"
            raise ConnectionFailed(failed) from error


def open_realtime(server: Server, query: Mapping[str, str]) -> Opening:
    """The connection to `/v1/realtime?query`."""
    made = connect(
        server.websocket_url("/realtime", query),
        subprotocols=[Subprotocol("realtime")],
        additional_headers=server.headers(),
        compression=None,  # base64 of noise: deflate costs time and saves little
        proxy=None if server.is_local else True,
        max_size=2**24,
        open_timeout=10,
        close_timeout=0.5,
    )
    return Opening(server, made)


def parse_frame(frame: str | bytes) -> dict[str, Any]:
    """A server event. ProtocolError if it is not a JSON object."""
    try:
        message = json.loads(frame)
    except ValueError as error:
        raise ProtocolError(f"server frame is not JSON: {frame[:80]!r}") from error
    if not isinstance(message, dict):
        raise ProtocolError(f"server frame: expected a JSON object, got {frame[:80]!r}")
    return message


def without_none(**fields: Any) -> dict[str, Any]:
    """Those that are not None."""
    return {key: value for key, value in fields.items() if value is not None}


def told_error(message: Mapping[str, Any]) -> tuple[ServerError, bool]:
    """The exception for an `error` event, and whether the server closes after it. ProtocolError."""
    payload = message.get("error")
    if not isinstance(payload, Mapping):
        raise ProtocolError(f"error event: expected an object under `error`, got {payload!r}")
    closes = bool({payload.get("type"), payload.get("code")} & ERRORS_BEFORE_CLOSE)
    return server_error(payload), closes


def close_reason(error: ConnectionClosed, held: ServerError | None) -> tuple[int, str]:
    """The close code, 1006 where there was none, and why, in words. held: what was said before."""
    code = error.rcvd.code if error.rcvd is not None else 1006
    said = error.rcvd.reason if error.rcvd is not None else "no close frame"
    return code, said if held is None else held.message


def final_close(
    server: Server, code: int, said: str, held: ServerError | None
) -> ServerError | None:
    """The exception for a close that the server meant to be final; None: it may come back."""
    if code in RETRIED_CLOSE_CODES:
        return None
    if code == 3000 or "invalid_api_key" in said:
        if held is None and " " not in said:  # the words before the close were not read any more
            got = "an unknown one" if server.api_key else "none"
            said = f"expected an API key that the server knows, got {got}"
        return AuthenticationError(said, "invalid_api_key")
    return held or ServerError(
        f"the server closed the session before it was finished, code {code}: {said}"
    )


def _retry_after(error: InvalidStatus) -> float | None:
    """Seconds, if it is a server that is full for now and says when to come back. A date (which
    the header may hold, too) is not read."""
    said = error.response.headers.get("Retry-After", "")
    if error.response.status_code != 503 or not (said.isascii() and said.isdecimal()):
        return None
    return min(float(said), LONGEST_RETRY_AFTER)


def lost_connection(
    server: Server, error: Exception, held: ServerError | None = None
) -> tuple[LookhearError, bool]:
    """What to raise when a connection could not be made, or is gone and will not be sought; and
    whether it may well be had in a moment. held: what was said before."""
    if isinstance(error, InvalidStatus):
        status = error.response.status_code
        refusal = server.refusal(status, bytes(error.response.body or b""))
        refusal.retry_after = _retry_after(error)
        return refusal, status in RETRIED_STATUSES
    if isinstance(error, ConnectionClosed):
        code, said = close_reason(error, held)
        if (final := final_close(server, code, said, held)) is not None:
            return final, False
        lost = ConnectionFailed(f"lost {server.base_url}: closed with {code}: {said}")
        return held or lost, True
    return ConnectionFailed(f"cannot reach {server.base_url}: {in_words(error)}"), True
