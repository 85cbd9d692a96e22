"""The workers as their parent knows them: who gets the next connection, and when one that died is
started again. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lookhear.engine.client.supervisor import RESTART_PAUSES, STEADY_SECONDS

DOWN, READY = "down", "ready"
# Seconds without a word: then others get the connections; and then it is killed.
PATIENCE_SECONDS, SILENCE_LIMIT = 5.0, 60.0


@dataclass(slots=True)
class Member:
    """One worker. status: as it says under `/ready`, or `down`. working: its connections that had
    asked for something, WebSockets among them, when it said so last; received: how many it had been
    given by then; is_full: whether it would have refused another session. silence: seconds since
    then, as far as the parent was awake."""

    number: int
    status: str = DOWN
    working: int = 0
    received: int = 0
    is_full: bool = False
    given: int = 0
    latest: int = 0  # of all connections that were given to anybody: its last one
    silence: float = 0.0
    was_ready: bool = False

    @property
    def load(self) -> int:
        """Connections at work, and those of which it has not told yet what they are."""
        return self.working + self.given - self.received

    def said(self, status: str, working: int, received: int, is_full: bool = False) -> None:
        """Its report."""
        self.status, self.working, self.received = status, working, received
        self.is_full = is_full
        self.silence = 0.0
        self.was_ready = self.was_ready or status == READY

    def ended(self) -> None:
        """The next process of this number has nothing of it."""
        self.status, self.is_full = DOWN, False
        self.working = self.received = self.given = 0
        self.silence = 0.0


def in_order(members: Iterable[Member]) -> list[Member]:
    """Who should get a connection, the best first: those that answer before those that are silent,
    those that are ready before others, those with places before those without, then the one with
    the least to do, and among those alike the one that has not been given any for longest. Without
    those that are down."""

    def preference(member: Member) -> tuple[bool, bool, bool, int, int]:
        is_silent = member.silence > PATIENCE_SECONDS
        return is_silent, member.status != READY, member.is_full, member.load, member.latest

    return sorted((member for member in members if member.status != DOWN), key=preference)


class Deaths:
    """Of one worker: how long its parent waits before it starts it again."""

    def __init__(self) -> None:
        self._in_a_row = 0

    def after(self, lived: float) -> float | None:
        """Seconds to wait after a death; they grow while deaths come soon one after another. None:
        there were too many of these. lived: seconds."""
        self._in_a_row = 1 if lived >= STEADY_SECONDS else self._in_a_row + 1
        if self._in_a_row > len(RESTART_PAUSES):
            return None
        return RESTART_PAUSES[self._in_a_row - 1]
