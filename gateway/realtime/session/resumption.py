"""What a session keeps so that its client can come back on another socket, and for how long."""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections.abc import Callable, Sequence

from lookhear.gateway.checks.checks import ProtocolError
from lookhear.gateway.realtime.protocol.commands import Append, ClientCommand
from lookhear.gateway.realtime.protocol.events import ResumeOffer, SessionResumed
from lookhear.gateway.services.services import Services
from lookhear.gateway.sockets.relay import token_of

# Characters of sent frames that a session keeps. Text for people is some hundred a second.
KEPT = 256 * 1024


class Resumption:
    """Of one session. is_possible: its client would know how to come back."""

    def __init__(self, services: Services, is_possible: bool) -> None:
        seconds = services.config.resume_seconds
        token = token_of(services.siblings.number, secrets.token_urlsafe(32))
        self.offer = ResumeOffer(token, seconds) if seconds and is_possible else None
        self.count = 0  # of times that the client came back
        self._metrics = services.metrics
        self._clock = services.clock
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

    def detached(self, expire: Callable[[], None]) -> bool:
        """The client's socket was cut -> whether the session waits for it; then `expire` is called
        when the time is over."""
        if self.offer is None:
            return False
        self._since = self._clock()
        self._metrics.sessions_detached.inc()
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self.offer.seconds, expire)
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
