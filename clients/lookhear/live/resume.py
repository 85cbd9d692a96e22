"""What a cut connection is gone on from, where the server keeps its session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from websockets.exceptions import ConnectionClosed, InvalidStatus

# Statuses with which the server says that the session is not there to be resumed.
_REFUSED = frozenset({400, 403, 404, 409})


class Resume:
    """Of one session at a time. base: the source sample that the session heard first."""

    def __init__(self) -> None:
        self.base = 0
        self._token: str | None = None
        self._last: str | None = None  # event that came
        self._is_ready = False

    def heard(self, message: Mapping[str, Any]) -> None:
        """Every event of the server, as it comes."""
        self._last = message.get("event_id", self._last)
        if message.get("type") == "session.created":
            extension = message.get("session", {}).get("lookhear", {})
            self._token = extension.get("resume", {}).get("token")

    def begin(self, base: int) -> None:
        """The session is as it was asked for, and hears that sample next."""
        self.base, self._is_ready = base, True

    def cut(self, error: Exception) -> None:
        """The connection is lost; a close frame of the server ended the session, too."""
        if isinstance(error, ConnectionClosed) and error.rcvd is not None:
            self.forget()

    def is_refused(self, error: Exception) -> bool:
        """Whether the server said with this that there is no such session any more."""
        is_told = isinstance(error, InvalidStatus) and error.response.status_code in _REFUSED
        return self.query is not None and is_told

    def forget(self) -> None:
        """The next connection begins a session."""
        self._token, self._is_ready = None, False

    @property
    def query(self) -> dict[str, str] | None:
        """Of the next connection's URL; None: it begins a session."""
        if self._token is None or self._last is None or not self._is_ready:
            return None
        return {"lookhear_resume": self._token, "lookhear_after": self._last}
