"""Who is encoded and decoded next. Pure: no clock, no tensors.

A *ticket* says that an owner (a live turn or a file) has work; the request itself is made only when
the ticket is admitted, from the newest audio. So a waiting tick is always superseded by the newer
one, and a slow machine lowers the update rate instead of building up lag. An owner has at most one
ticket and at most one running request.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from engine.request import Priority


@dataclass(slots=True)
class Ticket:
    """key: the owner. cost: samples that the encoder would have to read. passed_over: rounds in
    which somebody of a better class went first."""

    key: str
    priority: Priority
    cost: int
    passed_over: int = 0


class Scheduler:
    """First come, first served; live before batch, but a batch ticket is not starved.

    max_rows: requests that run together. encoder_budget: samples encoded in one step, so that
    running decodes never wait long; one request is always admitted, however large.
    """

    PATIENCE = 32  # rounds after which a batch ticket counts as live

    def __init__(self, max_rows: int, encoder_budget: int) -> None:
        assert max_rows >= 1 and encoder_budget >= 1
        self._max_rows = max_rows
        self._encoder_budget = encoder_budget
        self._waiting: OrderedDict[str, Ticket] = OrderedDict()
        self._running: dict[str, Priority] = {}

    @property
    def num_waiting(self) -> int:
        return len(self._waiting)

    @property
    def num_running(self) -> int:
        return len(self._running)

    def is_known(self, key: str) -> bool:
        """Whether the owner has a ticket or a running request."""
        return key in self._waiting or key in self._running

    def is_running(self, key: str) -> bool:
        return key in self._running

    def want(self, key: str, priority: Priority, cost: int) -> None:
        """Give the owner a ticket, or bring its cost up to date; its place in the queue stays."""
        assert key not in self._running, f"{key} has a running request"
        ticket = self._waiting.get(key)
        if ticket is None:
            self._waiting[key] = Ticket(key, priority, cost)
        else:
            ticket.cost = cost

    def forget(self, key: str) -> None:
        """The owner is gone or wants nothing any more; a running request of its ends here too."""
        self._waiting.pop(key, None)
        self._running.pop(key, None)

    def admit(self) -> list[str]:
        """Move tickets to running and return their owners, in the order to encode them.

        While live tickets wait, batch requests may take at most half of the rows.
        """
        admitted: list[str] = []
        budget = self._encoder_budget
        ranked = sorted(
            self._waiting.values(),
            key=lambda t: 0 if t.passed_over >= self.PATIENCE else t.priority.value,
        )
        for ticket in ranked:
            if len(self._running) >= self._max_rows:
                break
            if admitted and ticket.cost > budget:
                break  # in order: a smaller one further back must not overtake for ever
            if ticket.priority is Priority.BATCH and not self._room_for_batch():
                continue
            budget -= ticket.cost
            del self._waiting[ticket.key]
            self._running[ticket.key] = ticket.priority
            admitted.append(ticket.key)
        for ticket in self._waiting.values():
            if ticket.priority is Priority.BATCH:
                ticket.passed_over += 1
        return admitted

    def _room_for_batch(self) -> bool:
        # A row is kept for live work at all times, so a burst of files cannot shut a speaker out.
        num_batch = sum(p is Priority.BATCH for p in self._running.values())
        return num_batch < max(1, self._max_rows // 2)

    def finish(self, key: str) -> None:
        """The running request of the owner is done."""
        del self._running[key]

    def check(self) -> None:
        """Raise AssertionError if an invariant is broken."""
        assert len(self._running) <= self._max_rows
        assert not set(self._running) & set(self._waiting)
