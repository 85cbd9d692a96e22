"""What a load generator saw of one session. Every metric is a pure function of it."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Any

RATE = 24_000  # samples per second on the wire


@dataclass(frozen=True, slots=True)
class SpokenWord:
    """A reference word with its place in the session's audio, in seconds."""

    word: str
    start: float
    end: float


@dataclass(slots=True)
class Trace:
    """Times are seconds since the session's clock started; sample n is spoken at n / RATE.

    packets: (when it was sent, samples sent up to its end). events: (when received, the event).
    close_code: 1000 if we closed it; problem: why it ended early, None if it did not.
    """

    name: str
    packets: list[tuple[float, int]] = field(default_factory=list)
    events: list[tuple[float, dict[str, Any]]] = field(default_factory=list)
    close_code: int | None = None
    problem: str | None = None

    def sent_at(self, seconds: float) -> float:
        """When the packet was sent that holds the sample at `seconds` of the audio.

        ValueError beyond the last packet.
        """
        sample = int(seconds * RATE)
        index = bisect_right(self.packets, sample, key=lambda packet: packet[1])
        if index == len(self.packets):
            raise ValueError(f"{self.name}: no packet holds second {seconds}")
        return self.packets[index][0]

    @property
    def seconds(self) -> float:
        """Audio sent."""
        return self.packets[-1][1] / RATE if self.packets else 0.0

    @property
    def lateness(self) -> float:
        """How much later than due the worst packet was sent: the generator's own fault."""
        return max((when - end / RATE for when, end in self.packets), default=0.0)

    def to_json(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {
            "name": self.name,
            "packets": self.packets,
            "events": self.events,
            "close_code": self.close_code,
            "problem": self.problem,
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Trace:
        """The trace that `to_json` wrote."""
        return cls(
            data["name"],
            [(float(when), int(end)) for when, end in data["packets"]],
            [(float(when), event) for when, event in data["events"]],
            data["close_code"],
            data["problem"],
        )
