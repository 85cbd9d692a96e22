"""A client of Deepgram's live wire, driven by hand."""

from __future__ import annotations

import json
from typing import Any

from starlette.datastructures import QueryParams

from lookhear.gateway.checks.checks import ProtocolError
from lookhear.gateway.realtime.deepgram.dialect import DeepgramDialect
from lookhear.gateway.realtime.protocol.commands import Append
from lookhear.gateway.telemetry.ids import IdFactory
from lookhear.media.voice.vad import SpeechStarted, SpeechStopped
from tests.gateway.deepgram.frames import check, text_of
from tests.gateway.scripted import Script

FORMAT = "encoding=linear16&sample_rate=16000"
RATE = 16_000


class Listen(Script):
    """query: of its URL, beside the format of its audio."""

    def __init__(self, query: str = "", **options: Any) -> None:
        self.query = f"{FORMAT}&{query}"
        super().__init__(**options)

    def dialect(self, query: dict[str, str], ids: IdFactory) -> DeepgramDialect:
        self.spoken = DeepgramDialect(QueryParams(self.query), ids)
        return self.spoken

    def checked(self, frame: dict[str, Any]) -> dict[str, Any]:
        return check(frame)

    def tell(self, message: str | dict[str, Any] | bytes) -> list[dict[str, Any]]:
        """A message; -> the frames that it caused."""
        frame = json.dumps(message) if isinstance(message, dict) else message
        try:
            commands = self.spoken.parse(frame)
        except ProtocolError as problem:
            return self._take(self.protocol.refuse(problem))
        told = []
        for command in commands:
            assert not isinstance(command, Append)
            told += self._take(self.protocol.receive(command, now=self.now))
        return told

    def talk(
        self, seconds: float, *events: SpeechStarted | SpeechStopped, **voice: Any
    ) -> list[Any]:
        """Audio comes, and the detector says so much of it."""
        self.spoken.parse(bytes(2 * round(seconds * RATE)))
        return self.hear(seconds, list(events), **voice)

    def begins(self, seconds: float = 1.0) -> str:
        """Somebody begins to speak; -> the item."""
        self.talk(seconds, SpeechStarted(self.position), speaking=True)
        return next(reversed(self.started))

    def stops(self, seconds: float = 0.5) -> list[dict[str, Any]]:
        """A pause that ends the turn."""
        voiced = self.position
        return self.talk(seconds, SpeechStopped(self.position + 8000), voiced_until=voiced)

    @property
    def results(self) -> list[dict[str, Any]]:
        return [frame for frame in self.frames if frame["type"] == "Results"]

    @property
    def finals(self) -> list[str]:
        """Texts of the final results, but for empty ones."""
        return [text_of(f) for f in self.results if f["is_final"] and text_of(f)]
