"""Who is admitted, and who is fed how many tokens in a step. Pure: no clock, no tensors.

A *ticket* says that an owner (a live turn or a file) has work; the request itself is made only when
the ticket is admitted, from the newest audio. So a waiting tick is always superseded by the newer
one, and a slow machine lowers the update rate instead of building up lag. An owner has at most one
ticket and at most one running request.

Earliest deadline first. Deadlines are counted in rounds: a speaker who has fallen silent is due at
once, one who speaks on a little later, a file much later. As deadlines do not move, everybody is
the most overdue at some time, and nobody starves.

Admission is by reservation: a request is admitted when all the room it can ever need is free, so
nothing that runs is ever preempted.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple

from lookhear.engine.core.request import Cost, Demand, Priority


@dataclass(slots=True)
class Ticket:
    """key: the owner. deadline: the round by which it should be admitted."""

    key: str
    priority: Priority
    cost: Cost
    deadline: int


class Prompt(NamedTuple):
    """What a running request is fed beside the one token of a decode. wanted: tokens. deadline,
    divisible: as in `Ticket` and `Demand`."""

    key: str
    deadline: int
    wanted: int
    divisible: bool


BY_DEADLINE = attrgetter("deadline")


class Scheduler:
    """max_rows: requests that run together. encoder_budget: samples, or tokens of
    pictures, encoded in one step, so that running decodes never wait long; one request is always
    admitted, however large. token_budget: tokens fed in one step, for the same reason. together: of
    so many live requests that are wanted, how many run at once; None: all that there is room for.
    """

    LIVE_SLACK = 4  # rounds a speaker's tick may wait
    PATIENCE = 32  # rounds a file may wait

    def __init__(
        self,
        max_rows: int,
        encoder_budget: int,
        token_budget: int = 512,
        *,
        together: Callable[[int], int] | None = None,
    ) -> None:
        assert max_rows >= 1 and encoder_budget >= 1 and token_budget > max_rows
        self._max_rows = max_rows
        self._encoder_budget = encoder_budget
        self._token_budget = token_budget
        self._together = together
        self._round = 0
        self._waiting: OrderedDict[str, Ticket] = OrderedDict()
        self._running: dict[str, Ticket] = {}
        self._num_live = 0  # of those that run
        self._num_wanted = 0  # of those that wait, live

    @property
    def num_waiting(self) -> int:
        """Owners that wait for a step."""
        return len(self._waiting)

    @property
    def num_running(self) -> int:
        """Requests that were admitted and are not over."""
        return len(self._running)

    def is_known(self, key: str) -> bool:
        """Whether the owner has a ticket or a running request."""
        return key in self._waiting or key in self._running

    def is_running(self, key: str) -> bool:
        """Whether the owner has a request that was admitted."""
        return key in self._running

    # --- tickets ---------------------------------------------------------------------------------

    def want(self, key: str, priority: Priority, cost: Cost, *, is_urgent: bool = False) -> None:
        """Give the owner a ticket, or bring it up to date; its deadline can only come nearer.

        is_urgent: somebody has finished speaking and waits for the text.
        """
        assert key not in self._running, f"{key} has a running request"
        slack = self.PATIENCE
        if priority is Priority.LIVE:
            slack = 0 if is_urgent else self.LIVE_SLACK
        ticket = self._waiting.get(key)
        if ticket is None:
            self._waiting[key] = Ticket(key, priority, cost, self._round + slack)
            self._num_wanted += priority is Priority.LIVE
        else:
            ticket.cost = cost
            ticket.deadline = min(ticket.deadline, self._round + slack)

    def forget(self, key: str) -> None:
        """The owner is gone or wants nothing any more; a running request of its ends here too."""
        ticket = self._waiting.pop(key, None)
        self._num_wanted -= ticket is not None and ticket.priority is Priority.LIVE
        if key in self._running:
            self.finish(key)

    def finish(self, key: str) -> None:
        """The running request of the owner is done."""
        self._num_live -= self._running.pop(key).priority is Priority.LIVE

    # --- admission -------------------------------------------------------------------------------

    def admit(self, free_tokens: int = 0, num_retired: int = 0) -> list[str]:
        """Move tickets to running and return their owners, in the order to encode them.

        free_tokens: places in the paged cache that could be reserved now. num_retired: requests
        that are over but keep rows and places until a launched step is done. What does not fit yet
        is overtaken by what does until its deadline; after that everybody behind it waits. When
        nothing runs, there will never be more room: the first is admitted, to fail if it must.
        """
        self._round += 1
        if len(self._running) + num_retired >= self._max_rows:
            return []
        admitted: list[str] = []
        encoder = self._encoder_budget
        room_for_live = self._room_for_live()
        for ticket in sorted(self._waiting.values(), key=BY_DEADLINE):
            if len(self._running) + num_retired >= self._max_rows:
                break
            is_live = ticket.priority is Priority.LIVE
            if not (room_for_live if is_live else self._room_for_batch()):
                continue
            cost = ticket.cost
            no_room = (self._running or num_retired) and cost.tokens > free_tokens
            if no_room or (admitted and cost.encoder > encoder):
                if ticket.deadline < self._round:
                    break
                continue
            room_for_live -= is_live
            self._num_live += is_live
            self._num_wanted -= is_live
            encoder -= cost.encoder
            free_tokens -= cost.tokens
            del self._waiting[ticket.key]
            self._running[ticket.key] = ticket
            admitted.append(ticket.key)
        return admitted

    def _room_for_live(self) -> int:
        if self._together is None:
            return self._max_rows - self._num_live
        wanted = self._num_live + self._num_wanted
        return max(0, max(1, self._together(wanted)) - self._num_live)

    def _room_for_batch(self) -> bool:
        # Rows are kept for live work at all times, so a burst of files cannot shut a speaker out.
        num_batch = sum(t.priority is Priority.BATCH for t in self._running.values())
        return num_batch < max(1, self._max_rows // 2)

    # --- tokens ----------------------------------------------------------------------------------

    def share(self, demands: Mapping[str, Demand]) -> dict[str, int]:
        """How many tokens each running request is fed in this step; those with none are left out.

        Decodes take one each, whatever else there is. The rest of the budget goes to prompts and
        drafts by deadline, in chunks; one that takes several steps leaves up to half of its chunk
        to those behind it that need no more. What cannot be divided is fed whole, alone if it
        exceeds the budget.
        """
        shares: dict[str, int] = {}
        left = self._token_budget
        prompts: list[Prompt] = []
        for key, demand in demands.items():
            assert key in self._running, f"{key} is not running"
            if demand.waiting:
                continue
            if demand.known == 1 and (demand.divisible or not demand.draft):
                shares[key] = 1
                left -= 1
            if demand.known + demand.draft > 1:
                wanted = demand.known + demand.draft - shares.get(key, 0)
                deadline = self._running[key].deadline
                prompts.append(Prompt(key, deadline, wanted, demand.divisible))
        is_first = True
        for key, _, wanted, divisible in _overtaken(sorted(prompts, key=BY_DEADLINE), left):
            if left <= 0 and not is_first:
                break
            if not divisible:
                count = wanted if wanted <= left or is_first else 0
            else:
                count = min(wanted, left)
            if count > 0:
                shares[key] = shares.get(key, 0) + count
                left -= count
                is_first = False
        return shares

    def check(self) -> None:
        """Raise AssertionError if an invariant is broken."""
        assert len(self._running) <= self._max_rows
        live = sum(t.priority is Priority.LIVE for t in self._running.values())
        assert self._num_live == live
        wanted = sum(t.priority is Priority.LIVE for t in self._waiting.values())
        assert self._num_wanted == wanted
        assert not set(self._running) & set(self._waiting)


def _overtaken(prompts: list[Prompt], left: int) -> list[Prompt]:
    """Who is fed after whom, of prompts by deadline. left: tokens of the step. Short ones go before
    the first that takes several steps, or a question of a line would wait for somebody's book; but
    half of what is left stays for that one."""
    begun = 0  # of those in front of it
    while begun < len(prompts):
        prompt = prompts[begun]
        if prompt.divisible and prompt.wanted > left:
            break
        left -= prompt.wanted
        begun += 1
    room = left // 2
    short: list[Prompt] = []
    for prompt in prompts[begun + 1 :]:
        if prompt.wanted <= room:
            short.append(prompt)
            room -= prompt.wanted
    return [*prompts[:begun], *short, *(p for p in prompts[begun:] if p not in short)]
