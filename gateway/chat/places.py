"""Places for answers over HTTP. Who finds none waits until one is free, as who asks hundreds of
questions at once expects. Conversations do not wait: a few places are left to them. Media are
loaded by those who have a place, for those who wait shall hold no more than their bodies; so only
some may load at a time, or slow addresses would keep all places."""

from __future__ import annotations

import sys

from lookhear.engine.client.state import Availability
from lookhear.engine.messages import ModelCard
from lookhear.gateway.services.engine import Engine
from lookhear.gateway.slots import Claim, Slots

LEFT = 8  # of so many places one is left to conversations


class Place:
    """Of one request, with one for each of its `answers`. loading: of those who load media, who
    have a turn to do that before they have a place."""

    def __init__(self, slots: Slots, claim: Claim, answers: int, loading: Slots | None) -> None:
        self._slots, self._claim, self._answers = slots, claim, answers
        self._loading = loading
        self._turn = None if loading is None else loading.queue(claim, answers)
        self._ticket = slots.queue(claim, answers) if loading is None else None

    @property
    def is_taken(self) -> bool:
        """Whether it is there."""
        return self._ticket is not None and self._ticket.holds

    async def taken(self) -> None:
        """Until it is there."""
        if self._loading is not None and self._turn is not None:
            await self._loading.granted(self._turn)
            self._ticket = self._slots.queue(self._claim, self._answers)
        assert self._ticket is not None
        await self._slots.granted(self._ticket)

    def loaded(self) -> None:
        """The media are there: it is somebody else's turn to load. Twice is as good as once."""
        if self._loading is not None and self._turn is not None:
            self._loading.leave(self._turn)

    def leave(self) -> None:
        """However it ends, somebody else may have it. Twice is as good as once. Whoever waits for
        it has been cancelled before."""
        self.loaded()
        if self._ticket is not None:
            self._slots.leave(self._ticket)


class AnswerPlaces:
    """Of all models of a gateway; clients share them as they share other `Slots`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._slots: dict[str, Slots] = {}
        self._loading: dict[str, Slots] = {}

    def queue(self, card: ModelCard, claim: Claim, answers: int, *, loads: bool = False) -> Place:
        """At the end of the queue of a model. answers: of the request. loads: whether media are
        loaded once it has its place, which takes as long as somebody's address likes."""
        model = card.parent or card.id
        engines = [s for s in self._engine.states if s.model == model and not s.is_encoder]
        each = card.max_answers - card.max_answers // LEFT or sys.maxsize
        total = each * max(1, sum(state.state is Availability.READY for state in engines))
        slots = self._slots.setdefault(model, Slots(total, total, total))
        slots.resize(total, total)
        # Half of the places are left to those who have all they need, and of the other half one
        # client has not all.
        most = max(1, total // 2)
        of_one = max(1, most - max(1, most // LEFT))
        loading = self._loading.setdefault(model, Slots(most, of_one, 1))
        loading.resize(most, of_one)
        return Place(slots, claim, answers, loading if loads else None)
