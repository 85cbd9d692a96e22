"""How many more speakers an engine takes, between two answers of its heartbeat. Pure."""

from __future__ import annotations

import dataclasses

from lookhear.engine.messages import LiveLoad


class Places:
    """What the engine said last, less those who were let in and whom it had not counted then.

    A burst of clients within one heartbeat is so counted one by one. Who leaves is noticed with
    the next answer, for which `Pool.vacated` asks: what a leaver makes room for the engine knows.
    """

    def __init__(self) -> None:
        self._load: LiveLoad | None = None
        self._uncounted: list[int] = []  # number of the last ping before each who was let in
        self._said = self._left = 0  # numbers of pings: answered last; sent when somebody left

    @property
    def load(self) -> LiveLoad | None:
        """None: everybody may come."""
        if self._load is None:
            return None
        more = len(self._uncounted)
        return dataclasses.replace(
            self._load,
            speakers=self._load.speakers + more,
            places=max(0, self._load.places - more),
        )

    def taken(self, last_ping: int) -> None:
        """Somebody was let in, after that ping was sent."""
        self._uncounted.append(last_ping)

    def left(self, ping: int) -> None:
        """Somebody has gone, and that ping was sent to hear what that changes."""
        self._left = ping

    @property
    def is_old(self) -> bool:
        """Whether somebody has gone since what the engine said last."""
        return self._said < self._left

    def said(self, ping: int, load: LiveLoad | None) -> None:
        """The engine's answer to a ping: it has counted all who were let in before that was sent,
        because messages arrive in order."""
        self._load, self._said = load, ping
        self._uncounted = [last for last in self._uncounted if last >= ping]
