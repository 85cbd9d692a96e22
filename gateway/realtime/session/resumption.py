"""What a session keeps so that its client can come back on another socket, and for how long."""

from __future__ import annotations

import asyncio
import hmac
import secrets
import time
from collections.abc import Callable, Sequence

from lookhear.gateway.checks.checks import ProtocolError
from lookhear.gateway.realtime.protocol.commands import Append, ClientCommand
from lookhear.gateway.realtime.protocol.events import ResumeOffer, SessionResumed
from lookhear.gateway.telemetry.metrics import Metrics

# Characters of sent frames that a session keeps. Text for people is some hundred a second.
KEPT = 256 * 1024


class Resumption:
    """Of one session. seconds: that it waits for its client; 0: none. expire: called when they are
    over. clock: seconds, monotonic."""

    def __init__(
        self,
        metrics: Metrics,
        seconds: float,
        expire: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.offer = ResumeOffer(secrets.token_urlsafe(32), seconds) if seconds else None
        self.count = 0  # of times that the client came back
        self._metrics = metrics
        self._expire = expire
        self._clock = clock
        self._messages = 0
        self._audio_bytes = 0
        self._since: float | None = None  # when the client went away
        self._timer: asyncio.TimerHandle | None = None

    def took(self, messages: int, commands: Sequence[ClientCommand | ProtocolError]) -> None:
        """The next messages of the client will be worked on; these commands were in them."""
        self._messages += messages
        self._audio_bytes += sum(len(c.audio) for c in commands if isinstance(c, Append))

    def resumed(self) -> SessionResumed:
        """What the client is told, and counted: it is back."""
        self.count += 1
        self._metrics.resumptions.labels("resumed").inc()
        return SessionResumed(self._messages, self._audio_bytes)

    def answers_to(self, token: str) -> bool:
        """Compared in constant time, so that timing tells nothing."""
        return self.offer is not None and hmac.compare_digest(
            self.offer.token.encode(), token.encode()
        )

    def away_for(self, now: float) -> float:
        """Seconds; 0.0 while the client is there."""
        return 0.0 if self._since is None else now - self._since

    def detached(self) -> bool:
        """The client's socket was cut -> whether the session waits for it."""
        if self.offer is None:
            return False
        self._since = self._clock()
        self._metrics.sessions_detached.inc()
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self.offer.seconds, self._expire)
        return True

    def attached(self) -> None:
        """There is a socket again, or the first one."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = self._since = None
            self._metrics.sessions_detached.dec()

    def close(self) -> None:
        """The session is over, whether or not its client is there."""
        if self._timer is not None:
            self._metrics.resumptions.labels("expired").inc()
        self.attached()
