"""Places for answers over HTTP. Who finds none waits until one is free, as who asks hundreds of
questions at once expects. Conversations do not wait: a few places are left to them."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from lookhear.engine.client.state import Availability
from lookhear.engine.messages import ModelCard
from lookhear.gateway.services.engine import Engine
from lookhear.gateway.slots import Claim, Slots, Ticket

LEFT = 8  # of so many places one is left to conversations


@dataclass(frozen=True, slots=True)
class Place:
    """Of one request. leave: however it ends; twice is as good as once."""

    slots: Slots
    ticket: Ticket

    async def taken(self) -> None:
        """Until it has one for each of its answers."""
        await self.slots.granted(self.ticket)

    def leave(self) -> None:
        """Somebody else may have it."""
        self.slots.leave(self.ticket)


class AnswerPlaces:
    """Of all models of a gateway; clients share them as they share other `Slots`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._slots: dict[str, Slots] = {}

    def queue(self, card: ModelCard, claim: Claim, answers: int) -> Place:
        """At the end of the queue of a model. answers: of the request."""
        model = card.parent or card.id
        engines = [s for s in self._engine.states if s.model == model and not s.is_encoder]
        each = card.max_answers - card.max_answers // LEFT or sys.maxsize
        total = each * max(1, sum(state.state is Availability.READY for state in engines))
        slots = self._slots.setdefault(model, Slots(total, total, total))
        slots.resize(total, total)
        return Place(slots, slots.queue(claim, answers))
