"""What the protocol asks of its shell, in order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from engine.messages import Message
from media.pcm import AudioFormat
from media.vad import VadConfig


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
class EndListening:
    """The buffer ends here by hand (commit or clear): the detector begins a new turn after it."""


@dataclass(frozen=True, slots=True)
class TurnFinished:
    """For logs and metrics. lag: seconds from the commit to the transcript, None if it failed."""

    item: str
    seconds: float
    lag: float | None


@dataclass(frozen=True, slots=True)
class Close:
    """Close the socket after everything before it was sent."""

    code: int
    reason: str


Output = Send | Submit | UseModel | Tune | EndListening | TurnFinished | Close
