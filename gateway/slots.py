"""Slots of something scarce, shared between clients and their requests.

`SlotPolicy` is pure; `Slots` waits for it on an event loop.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Claim:
    """For whom something is done. client: see `Access.client`. request: the id of one request, or
    of a session."""

    client: str
    request: str


@dataclass(eq=False, slots=True)
class Ticket:
    """One who waits for slots, as many as its size, or holds them."""

    claim: Claim
    size: int = 1
    holds: bool = False


class SlotPolicy:
    """Who gets a slot next.

    A client may hold `per_client` of all `total`, a request `per_request`. Half of what a client
    may hold is kept for requests of its that hold none, so one request with much to do does not
    stop the others of the same client. Of those who may, the one whose client holds least goes
    first, then the one whose request holds least, then who came first: nobody waits for ever,
    since who waits long enough holds nothing. For one who wants several the others wait, until so
    many are free; who wants more than there are gets them when nobody holds any.
    """

    def __init__(self, total: int, per_client: int, per_request: int) -> None:
        self.resize(total, per_client)
        self._per_request = per_request
        self._waiting: list[Ticket] = []  # in the order of coming
        self._clients: Counter[str] = Counter()  # slots they hold
        self._requests: Counter[Claim] = Counter()

    @property
    def held(self) -> int:
        """Count the slots that are taken."""
        return self._clients.total()

    @property
    def waiting(self) -> int:
        """Count those who wait."""
        return len(self._waiting)

    def resize(self, total: int, per_client: int) -> None:
        """So many from now on. What is held is kept."""
        self._total = total
        self._per_client = per_client

    def ask(self, claim: Claim, size: int = 1) -> Ticket:
        """Come to the end of the queue."""
        ticket = Ticket(claim, size)
        self._waiting.append(ticket)
        return ticket

    def leave(self, ticket: Ticket) -> None:
        """Give the slot back, or the place in the queue."""
        if not ticket.holds:
            self._waiting.remove(ticket)
            return
        ticket.holds = False
        claim = ticket.claim
        self._clients[claim.client] -= ticket.size
        self._requests[claim] -= ticket.size
        self._clients, self._requests = +self._clients, +self._requests  # nothing of who is gone

    def grant(self) -> list[Ticket]:
        """Give the free slots away -> who holds one from now on."""
        granted: list[Ticket] = []
        while self.held < self._total:
            able = [ticket for ticket in self._waiting if self._may(ticket.claim)]
            if not able:
                break
            ticket = min(able, key=self._rank)  # the first of equals
            if self.held and self.held + ticket.size > self._total:
                break
            self._waiting.remove(ticket)
            ticket.holds = True
            self._clients[ticket.claim.client] += ticket.size
            self._requests[ticket.claim] += ticket.size
            granted.append(ticket)
        return granted

    def _may(self, claim: Claim) -> bool:
        held, own = self._clients[claim.client], self._requests[claim]
        if own == 0:
            return held < self._per_client
        return own < self._per_request and 2 * held < self._per_client

    def _rank(self, ticket: Ticket) -> tuple[int, int]:
        return self._clients[ticket.claim.client], self._requests[ticket.claim]


class Slots:
    """Every method belongs to one event loop."""

    def __init__(self, total: int, per_client: int, per_request: int) -> None:
        self._policy = SlotPolicy(total, per_client, per_request)
        self._futures: dict[Ticket, asyncio.Future[None]] = {}

    @property
    def waiting(self) -> int:
        """Count those who wait."""
        return self._policy.waiting

    def resize(self, total: int, per_client: int) -> None:
        """See `SlotPolicy`."""
        self._policy.resize(total, per_client)
        self._grant()

    def queue(self, claim: Claim, size: int = 1) -> Ticket:
        """Come to the end of the queue. Whoever does says that it leaves."""
        ticket = self._policy.ask(claim, size)
        self._futures[ticket] = asyncio.get_running_loop().create_future()
        self._grant()
        return ticket

    async def granted(self, ticket: Ticket) -> None:
        """Until it holds its slots."""
        await self._futures[ticket]

    def leave(self, ticket: Ticket) -> None:
        """Give back what it holds, or the place in the queue. Twice is as good as once."""
        if self._futures.pop(ticket, None) is not None:
            self._policy.leave(ticket)
            self._grant()

    @asynccontextmanager
    async def held(self, claim: Claim) -> AsyncIterator[None]:
        """A slot, waited for; given back at the end. Who is cancelled waits no longer."""
        ticket = self.queue(claim)
        try:
            await self.granted(ticket)
            yield
        finally:
            self.leave(ticket)

    def _grant(self) -> None:
        for ticket in self._policy.grant():
            future = self._futures[ticket]
            if not future.done():  # else it was cancelled, and leaves in a moment
                future.set_result(None)
