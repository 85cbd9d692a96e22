"""A client of Deepgram's live wire, driven by hand."""

from __future__ import annotations

from typing import Any

from lookhear.gateway.realtime.deepgram.dialect import DeepgramDialect
from lookhear.media.voice.vad import SpeechStarted, SpeechStopped
from tests.gateway.deepgram.frames import check, text_of
from tests.gateway.realtime.deepgram.script import RATE, ListenScript

FORMAT = "encoding=linear16&sample_rate=16000"


class Listen(ListenScript):
    """query: of its URL, beside the format of its audio."""

    wire = DeepgramDialect

    def __init__(self, query: str = "", **options: Any) -> None:
        super().__init__(f"{FORMAT}&{query}", **options)

    def checked(self, frame: dict[str, Any]) -> dict[str, Any]:
        return check(frame)

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
