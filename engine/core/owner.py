"""What every owner of requests (a live turn, a file) looks like to the core."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Protocol

from lookhear.engine.core.request import Cost, Result
from lookhear.engine.messages import Event


class Owner(Protocol):
    """Makes requests one after another and turns their results into events. Pure.

    The core asks `wants_request` whenever something has changed, calls `make_request` when there
    is room, and hands back either the result or the failure. `is_done` owners are dropped.
    """

    @property
    def is_done(self) -> bool:
        """Whether there will never be another request."""

    def wants_request(self) -> bool:
        """Whether it would make a request now."""

    @property
    def is_urgent(self) -> bool:
        """Whether somebody waits for the next request's text, having finished speaking."""

    def cost(self) -> Cost:
        """What the next request would take; never less than it then does."""

    def make_request(self) -> Any:
        """A request of the kind that the model's runner takes."""

    def absorb(self, result: Result) -> list[Event]:
        """Its request is over; the events are what is new."""

    def settle(self) -> list[Event]:
        """Events that need no request (a turn that ended in silence, say)."""

    def fail(self, code: str, message: str) -> list[Event]:
        """The owner's request could not be carried out."""


class Streamer(ABC):
    """An owner that is told of its request after every step, not only at its end."""

    @abstractmethod
    def follow(self, sequence: Any) -> list[Event]:
        """What is new. sequence: as the model's runner has it; the owner may end it."""
