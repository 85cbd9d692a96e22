"""From the bytes of a session's appends to what is heard in them; each step is taken where it holds
up nobody."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial

import numpy as np

from lookhear.engine.messages import SAMPLE_RATE
from lookhear.gateway.checks.checks import ProtocolError
from lookhear.gateway.http.errors import ApiError
from lookhear.gateway.realtime.listening.audio_intake import AudioIntake, Heard, Samples
from lookhear.gateway.realtime.protocol.outputs import Tune
from lookhear.gateway.realtime.protocol.refusals import UNREADABLE
from lookhear.gateway.realtime.settings import SessionSettings
from lookhear.gateway.services.services import Services
from lookhear.media.base import MediaError

INLINE_AUDIO = 32 * 1024  # bytes: more than this is decoded in a thread, in pieces of this size


class Hearing:
    """Of one session. settings: as it begins."""

    def __init__(self, services: Services, settings: SessionSettings) -> None:
        self._services = services
        self._intake = AudioIntake(services.silero, settings.format, settings.vad())
        self._packing = settings.packing
        self._decoder = None if settings.packing is None else services.decoders.own("packed")

    async def heard(
        self,
        chunks: Sequence[bytes],
        wants_sound: Callable[[Heard], bool],
        *,
        flush: bool,
        ends: bool,
    ) -> AsyncIterator[Heard]:
        """wants_sound: as in `AudioIntake.heard`. flush: nothing follows that belongs to it. ends:
        nothing follows at all. Raises ProtocolError: nothing can be heard any more."""
        if self._decoder is None:
            async for part in self._heard(chunks, wants_sound, flush=flush):
                yield part
            return
        for chunk in (*chunks, b"") if ends else chunks:
            async for audio in self._unpacked(chunk, ends=ends and not chunk):
                async for part in self._heard([audio], wants_sound, flush=False):
                    yield part
        async for part in self._heard([], wants_sound, flush=flush):
            yield part

    def tune(self, wanted: Tune) -> None:
        """From the next append on."""
        self._intake.tune(wanted.format, wanted.vad)

    def end_turn(self, sample: int | None = None) -> None:
        """See `AudioIntake.end_turn`."""
        self._intake.end_turn(sample)

    def close(self) -> None:
        """The session is over."""
        self._intake.end_turn()  # its filters are large, and we are no garbage for a while yet
        if self._decoder is not None:
            self._decoder.close()

    async def _unpacked(self, chunk: bytes, *, ends: bool) -> AsyncIterator[bytes]:
        """A message -> the raw audio that it completes, as the intake takes it."""
        assert self._decoder is not None
        more = True
        while more:
            options = {"ends": ends, "packing": self._packing}
            try:
                told, [audio] = await self._decoder.do(chunk, options)
            except MediaError as error:
                raise ProtocolError(error.detail, code=UNREADABLE) from None
            except ApiError as error:
                code = error.code or UNREADABLE
                raise ProtocolError(error.message, code=code, type="server_error") from None
            yield audio.tobytes()
            more, chunk, ends = bool(told["more"]), b"", False

    async def _heard(
        self, chunks: Sequence[bytes], wants_sound: Callable[[Heard], bool], *, flush: bool
    ) -> AsyncIterator[Heard]:
        intake, services = self._intake, self._services
        if sum(len(chunk) for chunk in chunks) <= INLINE_AUDIO:
            samples = intake.decode(chunks, flush=flush)
            windows = intake.windows(samples)
        else:
            samples = await self._decoded(b"".join(chunks), flush=flush)
            windows = await services.while_hearing(lambda: intake.windows(samples))
        probabilities = await services.vad.judge(intake.voice, windows)
        services.metrics.heard(len(samples) / SAMPLE_RATE)
        async for part in intake.heard(samples, probabilities, services.turn_ends, wants_sound):
            yield part

    async def _decoded(self, audio: bytes, *, flush: bool) -> Samples:
        """Piece by piece, so that one who sends much at once does not hold up the others."""
        decode, in_turn = self._intake.decode, self._services.while_hearing
        parts = []
        for start in range(0, len(audio), INLINE_AUDIO):
            piece = [audio[start : start + INLINE_AUDIO]]
            parts.append(await in_turn(partial(decode, piece, flush=False)))
        if flush:
            parts.append(await in_turn(partial(decode, [], flush=True)))
        return np.concatenate(parts)
