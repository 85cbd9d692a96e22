"""What can go wrong outside, as exceptions; the server's own words are in the message."""

from __future__ import annotations

import http.client
import os
from collections.abc import Mapping
from typing import Any

NO_PLACE = "too_many_speakers"  # the server's code for: one more would slow down the others
NOT_READY = "engine_not_ready"  # the server's code for: its model is being loaded


class LookhearError(Exception):
    """Base of everything this package raises on purpose."""


class AddressError(LookhearError, ValueError):
    """The server's address is not one."""


class UsageError(LookhearError):
    """Options of a command that do not go together."""


class NotInstalled(LookhearError):
    """An optional part of the package is needed; the message says how to install it."""


class SourceError(LookhearError):
    """What is to be sent cannot be read: no such file, not audio, no microphone."""


class OutputError(LookhearError):
    """What a command makes cannot be written: no such folder, not allowed, a full disk."""


class ConnectionFailed(LookhearError):
    """No server was reached, or it was lost and did not come back within the allowed tries."""


class ProtocolError(LookhearError):
    """The server said something that the protocol does not allow."""


class ServerError(LookhearError):
    """The server refused or failed. code and param are its machine words, None if it gave none.
    retry_after: seconds after which it may be asked again, None if it did not say."""

    retry_after: float | None = None

    def __init__(self, message: str, code: str | None = None, param: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.param = param


class InvalidRequest(ServerError):
    """The server did not accept what was asked: a field of the wrong type, audio it cannot read."""

    def about(self, name: str) -> InvalidRequest:
        """The same refusal with the name of what was sent, where the server could only say which
        part of the request it was."""
        said = self.message.removeprefix(f"{self.param}: ")
        return InvalidRequest(f"{name}: {said}", self.code, self.param)


class AuthenticationError(ServerError):
    """The API key is missing, wrong or not allowed to do this."""


class ModelNotFound(ServerError):
    """The server does not serve the model that was asked for."""


def server_error(
    payload: Mapping[str, Any], *, status: int | None = None, fallback: str = "server error"
) -> ServerError:
    """The typed exception for an error object {type, code, message, param} of the server.

    status: the HTTP status it came with, None on an open WebSocket.
    """
    message = str(payload.get("message") or fallback)
    code = payload.get("code")
    code = code if isinstance(code, str) else None
    param = payload.get("param")
    param = param if isinstance(param, str) else None
    kind = payload.get("type")
    if status in (401, 403) or code == "invalid_api_key" or kind == "authentication_error":
        return AuthenticationError(message, code, param)
    if code == "model_not_found":
        return ModelNotFound(message, code, param)
    if kind == "invalid_request_error" or (status is not None and 400 <= status < 500):
        return InvalidRequest(message, code, param)
    return ServerError(message, code, param)


KEY_HINT = "it goes to --api-key or into LOOKHEAR_API_KEY"  # behind what a server says of a key


def in_words(error: Exception) -> str:
    """Why a server was not reached, as people say it."""
    reason = getattr(error, "reason", error)  # what urllib wraps
    if isinstance(reason, ConnectionError) and reason.errno:
        return os.strerror(reason.errno)
    if isinstance(reason, OSError):
        return reason.strerror or str(reason) or type(reason).__name__
    if isinstance(reason, http.client.HTTPException):
        return f"expected HTTP, got {str(reason).strip()!r}"
    return str(reason) or type(reason).__name__
