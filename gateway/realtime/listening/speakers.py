"""A session's audio for who tells its speakers apart: all of it, silence too. Pure."""

from __future__ import annotations

from lookhear.engine.messages import DiariseLive, DiarisingFailed, SpeakersHeard
from lookhear.gateway.checks.checks import ProtocolError
from lookhear.gateway.realtime.listening.audio_intake import Samples
from lookhear.gateway.realtime.protocol import events
from lookhear.gateway.realtime.protocol.outputs import Submit


class SessionSpeakers:
    """has_failed: nothing more comes of it."""

    def __init__(self, session: str) -> None:
        self._session = session
        self._position = 0  # of the next sample of the session
        self._has_failed = False

    def hear(self, model: str | None, samples: Samples) -> Submit | None:
        """The next samples. model: tells speakers apart; None: nobody is asked to."""
        begin = self._position
        self._position += len(samples)
        if model is None or self._has_failed or not len(samples):
            return None
        return Submit(DiariseLive(self._session, model, samples, begin))

    def engine(self, event: SpeakersHeard | DiarisingFailed) -> events.SessionEvent:
        """What the client is told of it."""
        if isinstance(event, SpeakersHeard):
            return events.SpeakersKnown(event)
        self._has_failed = True
        text = f"who speaks is not known from here on: {event.message}"
        return events.Refused(ProtocolError(text, code=event.code))
