"""A session's audio for who tells its speakers apart: all of it, silence too. Pure."""

from __future__ import annotations

from dataclasses import replace

from lookhear.engine.messages import (
    SAMPLE_RATE,
    DiariseLive,
    DiarisingFailed,
    SpeakersHeard,
    SpeakerTurn,
)
from lookhear.gateway.checks.checks import ProtocolError
from lookhear.gateway.realtime.listening.audio_intake import Samples
from lookhear.gateway.realtime.protocol import events
from lookhear.gateway.realtime.protocol.outputs import Submit


class SessionSpeakers:
    """Once somebody is asked, all that follows is heard: after a gap they would be others."""

    def __init__(self, session: str) -> None:
        self._session = session
        self._position = 0  # of the next sample of the session
        self._asked: str | None = None  # the model that tells them apart
        self._begin = 0  # of what it hears
        self._has_failed = False  # nothing more comes of it

    def hear(self, model: str | None, samples: Samples) -> Submit | None:
        """The next samples. model: tells speakers apart; None: nobody is asked to, yet."""
        begin = self._position
        self._position += len(samples)
        if self._asked is None:
            self._asked, self._begin = model, begin
        if self._asked is None or self._has_failed or not len(samples):
            return None
        return Submit(DiariseLive(self._session, self._asked, samples, begin - self._begin))

    def engine(self, event: SpeakersHeard | DiarisingFailed) -> events.SessionEvent:
        """What the client is told of it, on the session's clock."""
        if isinstance(event, SpeakersHeard):
            return events.SpeakersKnown(_later(event, self._begin / SAMPLE_RATE))
        self._has_failed = True
        text = f"who speaks is not known from here on: {event.message}"
        return events.SpeakersLost(ProtocolError(text, code=event.code))


def _later(heard: SpeakersHeard, by: float) -> SpeakersHeard:
    def moved(turns: list[SpeakerTurn]) -> list[SpeakerTurn]:
        return [replace(turn, start=turn.start + by, end=turn.end + by) for turn in turns]

    over, under_way = moved(heard.over), moved(heard.open)
    return replace(heard, over=over, open=under_way, seconds=heard.seconds + by)
