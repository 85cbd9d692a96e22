"""A connection that belongs to another worker: its bytes are passed on, in both directions.

Who comes back to a session has to reach the process that keeps it. Where connections are encrypted
a socket cannot be handed over, so the one that got it stays in between; what it passes on is a
session's packets and texts, which is little. Every worker listens on a Unix socket in a folder that
only their user can enter; what comes there begins with a line that says whose connection it is.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast
from urllib.parse import parse_qs

TOKEN = "lookhear_resume"  # in the URL of a client that comes back
_NUMBERED = re.compile(r"([1-9]\d?)\.")
_MAX_LINE = 4096  # bytes


def token_of(worker: int, secret: str) -> str:
    """A token that says which worker keeps the session. 0: there is one process only."""
    return f"{worker}.{secret}" if worker else secret


def keeper(target: bytes) -> int | None:
    """The number of the worker whose session is asked for. target: of a request's first line."""
    _, _, query = target.partition(b"?")
    try:
        fields = parse_qs(query.decode("ascii"), max_num_fields=100)
    except ValueError:  # no ASCII, or too many: for whoever reads it next
        return None
    found = _NUMBERED.match(fields.get(TOKEN, [""])[0])
    return None if found is None else int(found[1])


def door(folder: Path, worker: int) -> Path:
    """Where that worker listens for the others."""
    return folder / f"worker-{worker}"


class _End(asyncio.Protocol):
    """One of the two connections; what comes goes to the other. ended: called when it is closed."""

    def __init__(self, ended: Callable[[], None] = lambda: None) -> None:
        self.transport: asyncio.Transport | None = None
        self.other: _End | None = None
        self.is_over = False
        self._ended = ended

    @property
    def _there(self) -> asyncio.Transport | None:
        """Of the other, as long as it can be used."""
        transport = None if self.other is None else self.other.transport
        return None if transport is None or transport.is_closing() else transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if (there := self._there) is not None:
            there.write(data)

    def pause_writing(self) -> None:
        """It takes nothing: the other is not read."""
        if (there := self._there) is not None:
            there.pause_reading()

    def resume_writing(self) -> None:
        if (there := self._there) is not None:
            there.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_over = True
        if (there := self._there) is not None:
            there.close()
        self._ended()


class Relay:
    """Passes a connection on as soon as it is there. transport: the client's, which is not read
    until then. first: what it has sent. path: where the keeper listens. missed: called instead if
    nobody does; then the connection is the caller's again. ended: called when it is closed, but
    not after `missed`."""

    def __init__(
        self,
        transport: asyncio.Transport,
        first: bytes,
        path: Path,
        missed: Callable[[], None],
        ended: Callable[[], None],
    ) -> None:
        self._near = _End(ended)
        self._near.transport = transport
        self._first = first
        self._path = path
        self._missed = missed
        transport.set_protocol(self._near)
        transport.pause_reading()
        self._task = asyncio.get_running_loop().create_task(self._connect())

    async def _connect(self) -> None:
        near = self._near.transport
        assert near is not None
        try:
            loop = asyncio.get_running_loop()
            transport, far = await loop.create_unix_connection(_End, path=str(self._path))
        except OSError:
            if not self._near.is_over:
                near.resume_reading()
                self._missed()
            return
        if self._near.is_over or near.is_closing():
            transport.close()
            return
        self._near.other, far.other = far, self._near
        transport.write(_introduction(near) + self._first)
        near.resume_reading()


@dataclass(frozen=True, slots=True)
class Keepers:
    """The workers, for one of them. own: its number. under_way: what it does for another one is
    counted as long as that context lasts."""

    folder: Path
    own: int
    under_way: Callable[[], AbstractContextManager[None]]

    def take(
        self,
        transport: asyncio.Transport,
        target: bytes,
        first: bytes,
        missed: Callable[[], None],
        ended: Callable[[], None],
    ) -> bool:
        """Whether the connection is another worker's, and is passed on: see `Relay`."""
        number = keeper(target)
        if number is None or number == self.own:
            return False
        counted = contextlib.ExitStack()
        counted.enter_context(self.under_way())

        def then(what: Callable[[], None]) -> Callable[[], None]:
            def do() -> None:
                counted.close()
                what()

            return do

        Relay(transport, first, door(self.folder, number), then(missed), then(ended))
        return True


def _introduction(transport: asyncio.Transport) -> bytes:
    told = {
        "peername": _address(transport, "peername"),
        "sockname": _address(transport, "sockname"),
        "encrypted": transport.get_extra_info("sslcontext") is not None,
    }
    return json.dumps(told).encode() + b"\n"


def _address(transport: asyncio.Transport, name: str) -> list[Any] | None:
    found = transport.get_extra_info(name)
    return list(found[:2]) if isinstance(found, tuple) else None


class Served(Protocol):
    """What serves a connection that was passed on."""

    def connection_made(self, transport: asyncio.Transport) -> None:
        """As asyncio calls it."""

    def data_received(self, data: bytes) -> None:
        """As asyncio calls it."""


class Arrival(asyncio.Protocol):
    """A connection that another worker passes on, until it has said whose it is. make: what serves
    it then."""

    def __init__(self, make: Callable[[], Served]) -> None:
        self._make = make
        self._came = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Another worker is there."""
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """The line, and the beginning of what the client sent."""
        self._came += data
        line, end, rest = self._came.partition(b"\n")
        if not end:
            if len(line) > _MAX_LINE:
                self._transport.abort()
            return
        served = self._make()
        self._transport.set_protocol(cast(asyncio.BaseProtocol, served))
        served.connection_made(cast(asyncio.Transport, _Relayed(self._transport, json.loads(line))))
        served.data_received(rest)


class _Relayed:
    """The transport of a relayed connection: it has the client's address, not ours."""

    def __init__(self, transport: asyncio.Transport, told: dict[str, Any]) -> None:
        self._transport = transport
        self._extra = {
            name: None if told[name] is None else tuple(told[name])
            for name in ("peername", "sockname")
        }
        # As whoever asks for it needs it: whether there is one.
        self._extra["sslcontext"] = (True,) if told["encrypted"] else None

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Of the client's own connection."""
        return self._extra.get(name, default)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)
