"""OpenAI's Realtime API (GA), the dialect that everything here was first made for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from lookhear.engine.messages import ModelCard
from lookhear.gateway.checks.checks import ProtocolError
from lookhear.gateway.realtime.openai.fixed_sessions import fixed_settings, within
from lookhear.gateway.realtime.openai.parsing import binary_frame, parse_client_event
from lookhear.gateway.realtime.openai.rendering import server_events
from lookhear.gateway.realtime.openai.session_updates import first_settings
from lookhear.gateway.realtime.openai.speakers import WhoSpeaks
from lookhear.gateway.realtime.protocol.commands import ClientCommand
from lookhear.gateway.realtime.protocol.dialect import Dialect, Json
from lookhear.gateway.realtime.protocol.events import SessionEvent
from lookhear.gateway.realtime.settings import SessionSettings
from lookhear.gateway.sockets.cutting import WireFrame
from lookhear.gateway.telemetry.ids import IdFactory


class OpenAIDialect(Dialect):
    """See `Dialect`. The URL may name a model, and ask for a transcription session."""

    path: ClassVar[str] = "/v1/realtime"
    resumes: ClassVar[bool] = True
    fixed: ClassVar[Json | None] = None  # the session that a client secret was made for

    def __init__(self, query: Mapping[str, str], ids: IdFactory) -> None:
        asked = query if self.fixed is None else self.fixed
        self.requested_model = asked.get("model") or None
        self._transcribes = query.get("intent") == "transcription"
        is_heard = self.fixed is not None and self.fixed.get("type") == "transcription"
        self.only_hears = self._transcribes if self.fixed is None else is_heard
        self._ids = ids
        self._who_speaks = WhoSpeaks()

    @staticmethod
    def recognises(frame: WireFrame) -> bool:
        """It greets, so whoever is not recognised by another dialect is taken to speak it."""
        return True

    def first_settings(
        self, models: Sequence[ModelCard]
    ) -> tuple[SessionSettings, ProtocolError | None]:
        """As the client secret says; as the URL asks, if there is none."""
        if self.fixed is not None:
            return fixed_settings(self.fixed, models)
        return first_settings(models, self.requested_model, transcribes=self._transcribes)

    def parse(self, frame: WireFrame) -> Sequence[ClientCommand]:
        """One client event is one command. Raises ProtocolError."""
        if isinstance(frame, bytes):
            raise binary_frame(len(frame))
        command = parse_client_event(frame)
        return (command if self.fixed is None else within(command, self.fixed),)

    def render(self, event: SessionEvent) -> Sequence[Json]:
        """type and event_id come first: it is what a person looks for in a log of frames."""
        return [
            {"type": frame["type"], "event_id": self._ids("event"), **frame}
            for frame in self._who_speaks.told(event, server_events(event))
        ]


def dialect_within(session: Json) -> type[OpenAIDialect]:
    """The dialect of clients whose secret was made for that session."""

    class FixedDialect(OpenAIDialect):
        """One that cannot leave it."""

        fixed = session

    return FixedDialect
