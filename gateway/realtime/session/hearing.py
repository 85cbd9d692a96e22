"""From the bytes of a session's appends to what is heard in them; each step is taken where it holds
up nobody."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial

import numpy as np

from lookhear.engine.messages import SAMPLE_RATE
from lookhear.gateway.realtime.listening.audio_intake import AudioIntake, Heard, Samples
from lookhear.gateway.services.services import Services

INLINE_AUDIO = 32 * 1024  # bytes: more than this is decoded in a thread, in pieces of this size


async def heard(
    chunks: Sequence[bytes],
    intake: AudioIntake,
    services: Services,
    wants_sound: Callable[[Heard], bool],
    *,
    flush: bool,
) -> AsyncIterator[Heard]:
    """wants_sound: as in `AudioIntake.heard`. flush: nothing follows that belongs to it."""
    if sum(len(chunk) for chunk in chunks) <= INLINE_AUDIO:
        samples = intake.decode(chunks, flush=flush)
        windows = intake.windows(samples)
    else:
        samples = await _decoded(b"".join(chunks), intake, services, flush=flush)
        windows = await services.while_hearing(lambda: intake.windows(samples))
    probabilities = await services.vad.judge(intake.voice, windows)
    services.metrics.heard(len(samples) / SAMPLE_RATE)
    async for part in intake.heard(samples, probabilities, services.turn_ends, wants_sound):
        yield part


async def _decoded(
    audio: bytes, intake: AudioIntake, services: Services, *, flush: bool
) -> Samples:
    """Piece by piece, so that one who sends much at once does not hold up the others."""
    parts = []
    for start in range(0, len(audio), INLINE_AUDIO):
        piece = [audio[start : start + INLINE_AUDIO]]
        parts.append(await services.while_hearing(partial(intake.decode, piece, flush=False)))
    if flush:
        parts.append(await services.while_hearing(partial(intake.decode, [], flush=True)))
    return np.concatenate(parts)
