"""What both of Deepgram's live wires have in common: all is asked in the URL, audio is raw."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from starlette.datastructures import QueryParams

from lookhear.engine.messages import SAMPLE_RATE
from lookhear.gateway.checks.checks import ProtocolError
from lookhear.gateway.deepgram import shapes
from lookhear.gateway.realtime.protocol.dialect import Close, Denial, Dialect
from lookhear.gateway.realtime.protocol.refusals import UNREADABLE
from lookhear.gateway.realtime.settings import SessionSettings
from lookhear.gateway.sockets.cutting import WireFrame
from lookhear.gateway.telemetry.ids import IdFactory
from lookhear.media.audio.pcm import AudioFormat, Packing

UNPACKED = AudioFormat("audio/pcm", SAMPLE_RATE)  # what is made of all that is not raw
UNREADABLE_DATA = Close(1008, "DATA-0000: the payload cannot be decoded as audio")
IDLE = Close(1011, "NET-0001: neither audio nor a KeepAlive came for too long")


class ListenDialect(Dialect):
    """See `Dialect`."""

    is_strict: ClassVar[bool] = True
    only_hears = True

    def __init__(self, query: Mapping[str, str], ids: IdFactory) -> None:
        self._query = QueryParams(query)
        self._ids = ids
        self.requested_model = self._query.get("model") or None
        self._request = ""  # its id
        self._audio: AudioFormat | Packing = "container"  # as it comes
        self._bytes = 0  # of the audio so far
        self._unpacked = 0.0  # seconds of it, if it does not come raw
        self._next_start = 0.0  # of a turn that is not announced, where the last one ended
        self._last_code: str | None = None  # of the last problem that was told

    @staticmethod
    def recognises(frame: WireFrame) -> bool:
        """It is alone on its path."""
        return True

    def denial(self, problem: ProtocolError, status: int) -> Denial:
        """As over HTTP."""
        return Denial(*shapes.denial(problem.message, self._ids("req"), status))

    @property
    def _came(self) -> float:
        """Seconds of audio that the client has sent, so far as they are known."""
        if not isinstance(self._audio, AudioFormat):
            return self._unpacked
        return self._bytes / (self._audio.rate * self._audio.sample_bytes)

    def _begins(self, seconds: float) -> float:
        """Where a turn that is announced begins: not before the end of the last one, which is
        known more exactly than in milliseconds."""
        return max(seconds, self._next_start)

    def _hearing(self, settings: SessionSettings) -> SessionSettings:
        """The settings, of who hears such audio."""
        if isinstance(self._audio, AudioFormat):
            return replace(settings, format=self._audio)
        return replace(settings, format=UNPACKED, packing=self._audio)

    def closing(self, close: Close) -> Close:
        """Who was silent for too long is told so by a code of its own; no code is ours alone."""
        if self._last_code == UNREADABLE:
            return UNREADABLE_DATA
        if self._last_code == "session_idle":
            return IDLE
        return close if close.code < 3000 else Close(1008, close.reason)
