"""What a load generator is told to do."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Literal

Turns = Literal["silence", "sound", "hand"]
"""What ends a turn: 500 ms of silence, how it sounds, or the client."""


@dataclass(frozen=True, slots=True)
class SessionPlan:
    """One session: samples [start, end) of the PCM file, then silence. language: None to detect."""

    name: str
    start: int
    end: int
    silence_seconds: float = 1.2
    language: str | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """url: of the WebSocket. pcm: file of 16-bit samples at 24 kHz. concurrency: sessions at once.

    Each worker waits a random time up to phase_seconds before each of its sessions, so that
    sessions do not tick together. pace: 1.0 is the speed of speech. wire: a name in
    `wires.registry`. model: None for the server's own choice. provisional: ask for text
    that may still change, words: for the times of words, where that has to be asked for and may be
    refused. packet_seconds: audio per packet, for
    the wires that leave it to the client. turns, near_field (who is further from the microphone is
    not heard): on the wires that can be told.
    """

    url: str
    pcm: str
    sessions: list[SessionPlan] = field(default_factory=list)
    concurrency: int = 1
    phase_seconds: float = 1.0
    pace: float = 1.0
    seed: int = 0
    provisional: bool = True
    words: bool = False
    wire: str = "openai"
    model: str | None = None
    packet_seconds: float = 0.02
    turns: Turns = "silence"
    near_field: bool = False

    def to_json(self) -> str:
        """For the file that the load generator reads."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Job:
        """The job that `to_json` wrote."""
        data = json.loads(text)
        data["sessions"] = [SessionPlan(**session) for session in data["sessions"]]
        return cls(**data)
