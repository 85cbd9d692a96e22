"""A client of Deepgram's turn-based wire, driven by hand; and every frame against what the SDKs
expect of it; where the Python SDK is installed, against its own models, too."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, TypeAdapter

from lookhear.engine.messages import TextCommitted, TextProvisional, TokenLogprob, Word
from lookhear.gateway.checks.models import with_names
from lookhear.gateway.realtime.deepgram.flux import FluxDialect
from lookhear.gateway.realtime.listening.audio_intake import Heard
from lookhear.gateway.realtime.listening.turn import HEARD
from lookhear.media.voice.vad import SpeechPaused, SpeechStarted, SpeechStopped, VadEvent
from tests.gateway.deepgram.frames import Frame, Seconds
from tests.gateway.fake_engine import CARDS
from tests.gateway.realtime.deepgram.script import RATE, ListenScript
from tests.gateway.scripted import SESSION

SERVED = with_names(CARDS, (), is_strict=False)  # any name stands for the first of them
FORMAT = "model=flux-general-en&encoding=linear16&sample_rate=16000"
Probability = Annotated[float, Field(ge=0, le=1)]


class Message(Frame):
    request_id: str
    sequence_id: Annotated[int, Field(ge=0)]


class Connected(Message):
    type: Literal["Connected"]


class Spoken(Frame):
    word: Annotated[str, Field(min_length=1)]
    confidence: Probability
    start: Seconds | None = None
    end: Seconds | None = None


class TurnInfo(Message):
    type: Literal["TurnInfo"]
    event: Literal["StartOfTurn", "Update", "EagerEndOfTurn", "TurnResumed", "EndOfTurn"]
    turn_index: Annotated[int, Field(ge=0)]
    audio_window_start: Seconds
    audio_window_end: Seconds
    transcript: str
    words: list[Spoken]
    end_of_turn_confidence: Probability
    trigger: Literal["model", "manual", "timeout"] | None = None
    languages: list[str] | None = None
    languages_hinted: list[str] | None = None


class InForce(Frame):
    eot_threshold: Annotated[float, Field(ge=0.5, le=1)]
    eot_timeout_ms: Annotated[int, Field(ge=500, le=60_000)]
    eager_eot_threshold: Annotated[float, Field(ge=0.3, le=0.9)] | None = None


class ConfigureSuccess(Message):
    type: Literal["ConfigureSuccess"]
    thresholds: InForce
    keyterms: list[str]
    language_hints: list[str] | None = None


class ConfigureFailure(Message):
    type: Literal["ConfigureFailure"]
    code: str
    description: str


class Warned(Message):
    type: Literal["Warning"]
    code: Annotated[str, Field(pattern="^[A-Z_]+$")]
    description: str


class FatalError(Frame):
    type: Literal["Error"]
    sequence_id: Annotated[int, Field(ge=0)]
    code: Annotated[str, Field(pattern="^[A-Z_]+$")]
    description: str


MODELS: dict[str, TypeAdapter[Any]] = {
    "Connected": TypeAdapter(Connected),
    "TurnInfo": TypeAdapter(TurnInfo),
    "ConfigureSuccess": TypeAdapter(ConfigureSuccess),
    "ConfigureFailure": TypeAdapter(ConfigureFailure),
    "Warning": TypeAdapter(Warned),
    "Error": TypeAdapter(FatalError),
}


def _theirs() -> dict[str, TypeAdapter[Any]]:
    """Of the SDK."""
    try:
        types = importlib.import_module("deepgram.listen.v2.types")
    except ImportError:
        return {}
    names = {name: name for name in MODELS} | {"Error": "FatalError"}
    return {name: TypeAdapter(getattr(types, f"ListenV2{their}")) for name, their in names.items()}


THEIRS = _theirs()


def check(frame: dict[str, Any]) -> dict[str, Any]:
    """The frame, if it is valid; raises pydantic.ValidationError otherwise."""
    MODELS[frame["type"]].validate_python(frame)
    if THEIRS:
        THEIRS[frame["type"]].validate_python(frame, strict=True)
    if frame["type"] == "TurnInfo":
        assert (frame["event"] == "EndOfTurn") == ("trigger" in frame)
        assert frame["audio_window_start"] <= frame["audio_window_end"]
    return frame


def kinds(frames: Sequence[dict[str, Any]]) -> list[str]:
    """What each is about."""
    return [frame.get("event", frame["type"]) for frame in frames]


def ended(frames: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The ends of turns among them."""
    return [frame for frame in frames if frame.get("event") == "EndOfTurn"]


def check_order(frames: Sequence[dict[str, Any]]) -> None:
    """The rules that Deepgram publishes of the order of its events."""
    numbers = [frame["sequence_id"] for frame in frames]
    assert numbers == list(range(len(numbers)))
    state, eager, index = "initial", "", 0
    for frame in frames:
        if frame["type"] != "TurnInfo":
            continue
        event, text = frame["event"], frame["transcript"]
        assert frame["turn_index"] == index
        match event:
            case "StartOfTurn":
                assert state == "initial" and text
                state = "speaking"
            case "Update":
                assert state == "speaking"
            case "EagerEndOfTurn":
                assert state == "speaking" and text
                state, eager = "waiting", text
            case "TurnResumed":
                assert state == "waiting"
                state = "speaking"
            case "EndOfTurn":
                assert state == "speaking" or (state == "waiting" and text == eager)
                state, index = "initial", index + 1


class Flux(ListenScript):
    """query: of its URL, beside model and format of its audio. hears_ends: pauses are judged."""

    wire = FluxDialect

    def __init__(self, query: str = "", *, hears_ends: bool = True, **options: Any) -> None:
        options.setdefault("models", SERVED)
        query = query if "model=" in query else f"{FORMAT}&{query}"
        super().__init__(query, hears_ends=hears_ends, **options)

    def checked(self, frame: dict[str, Any]) -> dict[str, Any]:
        return check(frame)

    def talk(
        self,
        seconds: float,
        *events: VadEvent,
        over: float | None = None,
        voiced_until: int | None = None,
        speaking: bool = True,
    ) -> list[dict[str, Any]]:
        """Audio comes, and the detector says so much of it."""
        self.spoken.parse(bytes(2 * round(seconds * RATE)))
        samples = np.zeros(round(seconds * RATE), np.float32)
        self.position += len(samples)
        voiced = self.position if voiced_until is None else voiced_until
        heard = Heard(samples, list(events), voiced, speaking, over=over)
        return self._take(self.protocol.hear(heard, now=self.now))

    def begins(self, seconds: float = 1.0) -> str:
        """Somebody begins to speak; -> the item."""
        self.talk(seconds, SpeechStarted(self.position))
        self.voiced_at = self.position
        return next(reversed(self.started))

    def pauses(self, milliseconds: int, over: float | None = None) -> list[dict[str, Any]]:
        """Nobody has spoken for so long; that was judged."""
        end = self.voiced_at + milliseconds * RATE // 1000
        pause = SpeechPaused(end, milliseconds)
        return self.talk(
            (end - self.position) / RATE, pause, over=over, voiced_until=self.voiced_at
        )

    def speaks_on(self, seconds: float = 0.5) -> list[dict[str, Any]]:
        told = self.talk(seconds)
        self.voiced_at = self.position
        return told

    def stops(self, milliseconds: int = 5000) -> list[dict[str, Any]]:
        """A silence that ends the turn, whatever anybody thinks."""
        end = self.voiced_at + milliseconds * RATE // 1000
        told = SpeechStopped(end)
        seconds = (end - self.position) / RATE
        return self.talk(seconds, told, voiced_until=self.voiced_at, speaking=False)

    def thinks(self, item: str, text: str, ended: float = 0.0) -> list[dict[str, Any]]:
        """A guess of all that was said up to the last voice. ended: how probably a sentence is."""
        heard = self.voiced_at + HEARD
        return self.engine(TextProvisional(SESSION, item, text, heard, ended))

    def says(self, item: str, text: str, start: float, end: float) -> list[dict[str, Any]]:
        """The engine commits a word, with its times if it knows them."""
        self.text[item] += text
        settings = self.started[item].settings
        words = [Word(text, start, end, 0.75)] if settings.words else None
        logprobs: list[TokenLogprob] | None = [] if settings.logprobs else None
        return self.engine(TextCommitted(SESSION, item, text, logprobs, words))
