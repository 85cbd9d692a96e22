"""What a wire dialect is: client frames in, server frames out, and nothing else.

A new one is a file with a class that is a `Dialect` and a line in `gateway.realtime.dialects`. The
session behind it is the same for all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar, Protocol

from starlette.datastructures import QueryParams

from lookhear.engine.messages import ModelCard
from lookhear.gateway.checks.checks import ProtocolError
from lookhear.gateway.http.errors import error_body
from lookhear.gateway.realtime.protocol.commands import ClientCommand
from lookhear.gateway.realtime.protocol.events import SessionEvent
from lookhear.gateway.realtime.settings import SessionSettings
from lookhear.gateway.sockets.cutting import WireFrame
from lookhear.gateway.telemetry.ids import IdFactory

Json = dict[str, Any]
"""A server frame: it is sent as JSON text."""


@dataclass(frozen=True, slots=True)
class Close:
    """Close the socket after everything before it was sent."""

    code: int
    reason: str


@dataclass(frozen=True, slots=True)
class Denial:
    """What a handshake that is refused is answered with, beside its status."""

    body: Json
    headers: dict[str, str] = field(default_factory=dict)


class Dialect(Protocol):
    """The dialect of one connection; it may remember what it was told.

    path: of the URL. Of several dialects on one path the first greets; another one takes over if
    it `recognises` the client's first frame.
    is_strict: the handshake is refused where the URL asks for what cannot be had; else the client
    is told inside.
    resumes: its clients can come back after their socket was cut; of the one that greets.
    requested_model: what the URL asks for, if anything.
    only_hears: by its URL a session is there to be transcribed, whatever else is served.
    headers: of the answer to the handshake, once `first_settings` has read the URL.
    """

    path: ClassVar[str]
    is_strict: ClassVar[bool] = False
    resumes: ClassVar[bool] = False
    requested_model: str | None
    only_hears: bool = False
    headers: Mapping[str, str] = MappingProxyType({})

    def __init__(self, query: QueryParams, ids: IdFactory) -> None:
        """query: of the URL; names may be repeated. ids: makes a fresh id from a prefix."""

    @staticmethod
    def recognises(frame: WireFrame) -> bool:
        """Whether a client that begins with this frame speaks it."""

    def first_settings(
        self, models: Sequence[ModelCard]
    ) -> tuple[SessionSettings, ProtocolError | None]:
        """How a session begins, and what is wrong with what its URL asked for."""

    def parse(self, frame: WireFrame) -> Sequence[ClientCommand]:
        """A client's frame, in any thread but one at a time. Raises ProtocolError."""

    def render(self, event: SessionEvent) -> Sequence[Json]:
        """The frames that tell it, in order; none if there are no words for it."""

    def denial(self, problem: ProtocolError, status: int) -> Denial:
        """What answers a handshake that is refused; unless said otherwise, as over HTTP."""
        return Denial(error_body(problem.message, problem.type, problem.code, problem.param))

    def closing(self, close: Close) -> Close:
        """How its clients know that end of a session; what was rendered before tells the reason."""
        return close
