"""What a wire dialect is: client frames in, server frames out, and nothing else.

A new one is a file with a class of this shape and a line in `gateway.realtime.dialects`. The
session behind it is the same for all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Protocol

from lookhear.engine.messages import ModelCard
from lookhear.gateway.checks.checks import ProtocolError
from lookhear.gateway.realtime.protocol.commands import ClientCommand
from lookhear.gateway.realtime.protocol.events import SessionEvent
from lookhear.gateway.realtime.settings import SessionSettings
from lookhear.gateway.sockets.cutting import WireFrame
from lookhear.gateway.telemetry.ids import IdFactory

Json = dict[str, Any]
"""A server frame: it is sent as JSON text."""


class Dialect(Protocol):
    """The dialect of one connection; it may remember what it was told.

    path: of the URL. Of several dialects on one path the first greets; another one takes over if
    it `recognises` the client's first frame.
    requested_model: what the URL asks for, if anything.
    """

    path: ClassVar[str]
    requested_model: str | None

    def __init__(self, query: Mapping[str, str], ids: IdFactory) -> None:
        """query: of the URL. ids: makes a fresh id from a prefix."""

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
