"""How long a session may last, and how long nothing may be said in it: timers, and last words."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable

from lookhear.gateway.checks.checks import ProtocolError
from lookhear.gateway.realtime.protocol.dialect import Close
from lookhear.gateway.realtime.protocol.refusals import IDLE, expired
from lookhear.gateway.realtime.session.idleness import Idleness
from lookhear.gateway.services.services import Services


class Lifetime:
    """Of one session. end: called with its last words, and with the same once more where it still
    lasts after `drain_seconds`."""

    def __init__(self, services: Services, end: Callable[[ProtocolError, Close], None]) -> None:
        config, clock = services.config, services.clock
        self._idleness = Idleness(config.first_message_seconds, config.idle_seconds, clock())
        self._most = config.max_session_seconds
        self._patience = config.drain_seconds
        self._clock = clock
        self._refusals = services.refusals
        self._end: Callable[[ProtocolError, Close], None] | None = end
        self._timers: list[asyncio.TimerHandle | None] = [None, None, None]

    def begin(self) -> None:
        """From now on it is watched."""
        if self._most:
            loop = asyncio.get_running_loop()
            self._timers[0] = loop.call_later(self._most, self._expire)
        self._watch()

    def cancel(self) -> None:
        """It is over by itself; and it is let go, so that it is no garbage that has to be found."""
        self._end = None
        for timer in self._timers:
            if timer is not None:
                timer.cancel()

    def heard(self) -> None:
        """The client sent a message."""
        self._idleness.heard(self._clock())

    def answered(self) -> None:
        """It was sent something of the engine's."""
        self._idleness.answered(self._clock())

    @property
    def silent_for(self) -> float:
        """Seconds in which the client has not sent a first message; 0.0 once it has."""
        return self._idleness.silent_for(self._clock())

    def end_idle(self, seconds: float, what: str) -> None:
        """Nothing was said for so many seconds."""
        message = f"session: expected a message, got {seconds:.3g} seconds {what}; connect again"
        self._say(ProtocolError(message, code=IDLE), Close(1001, "session idle"))

    def _watch(self) -> None:
        now = self._clock()
        if self._idleness.left(now) <= 0.0:
            self.end_idle(self._idleness.limit, "without one")
        elif (seconds := self._idleness.next_look(now)) < math.inf:
            self._timers[1] = asyncio.get_running_loop().call_later(seconds, self._watch)

    def _expire(self) -> None:
        self._say(expired(self._most), Close(1001, "session expired"))

    def _say(self, why: ProtocolError, close: Close) -> None:
        if self._end is None:
            return
        if why.code == IDLE:
            self._refusals.add(IDLE)
        self._end(why, close)
        # What is under way then may take for ever, as an engine that hangs does. Who is told to end
        # twice does not wait for it.
        if self._timers[2] is None:
            loop = asyncio.get_running_loop()
            self._timers[2] = loop.call_later(self._patience, self._end, why, close)
