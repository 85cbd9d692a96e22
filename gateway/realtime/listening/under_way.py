"""Which turns of a session are under way. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from lookhear.gateway.realtime.listening.turn import Turn
from lookhear.gateway.realtime.protocol.conversation import Item
from lookhear.gateway.realtime.protocol.refusals import too_many_recordings

MAX_HELD_UP = 16  # recordings that wait for the end of the open turn


class UnderWay:
    """The open turn, and those that wait for their transcripts."""

    def __init__(self) -> None:
        self._turn: Turn | None = None  # the open one
        self._turns: dict[str, Turn] = {}  # all that the engine knows, by name

    @property
    def pending(self) -> int:
        """Committed turns whose transcript is not known yet."""
        return len(self._turns) - (self._turn is not None)

    @property
    def is_held_up(self) -> bool:
        """Whether no transcript comes before the open turn ends: turns are heard in the order in
        which they began."""
        return self._turn is not None and next(iter(self._turns.values())) is self._turn

    def check_room(self, recordings: int) -> None:
        """For so many that the client wants transcribed. Raises ProtocolError."""
        if recordings and self.is_held_up and self.pending + recordings > MAX_HELD_UP:
            raise too_many_recordings(MAX_HELD_UP)

    @property
    def is_open(self) -> bool:
        """Whether a turn has begun and is not committed."""
        return self._turn is not None

    @property
    def is_speaking(self) -> bool:
        """Whether somebody speaks who was announced to the client."""
        return self._turn is not None and self._turn.announced

    @property
    def heard(self) -> Turn | None:
        """The turn that is to be answered next, if it is the only one: somebody speaks, or its
        transcript is still to come."""
        if len(self._turns) != 1:
            return None
        [turn] = self._turns.values()
        is_asking = turn.announced if turn is self._turn else turn.wants_answer
        return turn if is_asking and turn.failure is None else None

    def owns(self, item_id: str) -> bool:
        """Whether a turn under way has this id, or will become the item of it."""
        return any(item_id in (turn.item, turn.name) for turn in self._turns.values())

    def ask(self, items: Sequence[Item], *, asked: bool = True) -> None:
        """Whether a response answers these: no other needs to, once they are transcribed."""
        ids = {item.id for item in items}
        for turn in self._turns.values():
            if turn.item in ids:
                turn.is_asked = asked
