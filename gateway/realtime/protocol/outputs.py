"""What the protocol asks of its shell, in order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lookhear.engine.messages import Message
from lookhear.media.audio.pcm import AudioFormat
from lookhear.media.voice.vad import VadConfig


@dataclass(frozen=True, slots=True)
class Send:
    """A server event for the client."""

    event: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Submit:
    """A message for the engine."""

    message: Message


@dataclass(frozen=True, slots=True)
class UseModel:
    """Turns that begin from now on are for this model: its engine is the session's to lose."""

    model: str


@dataclass(frozen=True, slots=True)
class Tune:
    """How audio is to be heard from the next append on."""

    format: AudioFormat
    vad: VadConfig


@dataclass(frozen=True, slots=True)
class ResetIntake:
    """The buffer ends here by hand (commit or clear): the detector begins a new turn after it."""


@dataclass(frozen=True, slots=True)
class TurnFinished:
    """For logs and metrics. lag: seconds from the commit to the transcript, None if it failed."""

    item: str
    seconds: float
    lag: float | None


@dataclass(frozen=True, slots=True)
class ResponseFinished:
    """For logs and metrics. status: as in `response.done`."""

    response: str
    status: str


@dataclass(frozen=True, slots=True)
class Close:
    """Close the socket after everything before it was sent."""

    code: int
    reason: str


Output = Send | Submit | UseModel | Tune | ResetIntake | TurnFinished | ResponseFinished | Close

IdFactory = Callable[[str], str]
"""Makes a fresh id from a prefix: "item" -> "item_4f…"."""


class Emitter:
    """Collects what the parts of one protocol put out, in order."""

    def __init__(self, ids: IdFactory) -> None:
        self._ids = ids
        self._out: list[Output] = []

    def send(self, event: dict[str, Any]) -> None:
        # type and event_id first: it is what a person looks for in a log of frames.
        head = {"type": event["type"], "event_id": self._ids("event")}
        self._out.append(Send({**head, **event}))

    def submit(self, message: Message) -> None:
        self._out.append(Submit(message))

    def put(self, output: Output) -> None:
        self._out.append(output)

    def take(self) -> list[Output]:
        """All since the last call."""
        out, self._out = self._out, []
        return out
