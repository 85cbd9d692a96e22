"""Clients that draw breath are told that a turn is probably over, and that it was not. Pure."""

from __future__ import annotations

from lookhear.gateway.realtime.listening.turn import Turn
from lookhear.gateway.realtime.protocol import events
from lookhear.gateway.realtime.protocol.outputs import Emitter


class EagerEnds:
    """Of the turns of one session."""

    def __init__(self, emitter: Emitter) -> None:
        self._emitter = emitter
        self._paused: str | None = None  # the turn whose end was told

    def tell(self, turn: Turn | None, *, is_wanted: bool) -> None:
        """turn: the one that is to be answered next. is_wanted: the client asked for it."""
        if not is_wanted:
            self._paused = None
        elif turn is not None and turn.committed_at is None:
            if turn.guess is not None and self._paused != turn.item:
                self._paused = turn.item
                self._emitter.send(events.EagerEnd(turn.item, turn.guess, turn.over))
            elif turn.guess is None and self._paused == turn.item:
                self._paused = None
                self._emitter.send(events.EagerResumed(turn.item))
