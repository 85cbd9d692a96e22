"""What passes by on its way to the server: how loud it is, and when each moment of it came."""

from __future__ import annotations

import bisect
import math
import time
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Callable

import numpy as np

from lookhear.sources.pcm import RATE, SAMPLE_BYTES

SILENT = -60.0  # dB below the loudest; what is quieter counts as this
_SHOWN_SECONDS = 0.05  # the newest sound, which the level is that of
_STALE_SECONDS = 0.5  # without sound, after which it is silent
_REMEMBERED = 6000  # pieces whose time is known: two minutes of a microphone


class LevelMeter:
    """Measures sound on its way. clock: seconds, as `time.monotonic`."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._samples = 0
        self._level = SILENT
        self._came: deque[tuple[float, float]] = deque(maxlen=_REMEMBERED)  # (seconds, clock)

    async def watch(self, pieces: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
        """The same PCM, 16-bit mono at 24 kHz."""
        async for piece in pieces:
            self.passed(piece)
            yield piece

    def passed(self, piece: bytes) -> None:
        """A piece of 16-bit mono PCM at 24 kHz has just come."""
        newest = piece[-int(_SHOWN_SECONDS * RATE) * SAMPLE_BYTES :]
        samples = np.frombuffer(newest, "<i2").astype(np.float32)
        power = float(np.mean(np.square(samples))) if len(samples) else 0.0
        loudness = 10 * math.log10(power / 32768.0**2) if power > 0 else SILENT
        self._level = max(SILENT, loudness)
        self._samples += len(piece) // SAMPLE_BYTES
        self._came.append((self.seconds, self._clock()))

    @property
    def seconds(self) -> float:
        """How much has passed."""
        return self._samples / RATE

    @property
    def level(self) -> float:
        """Of the newest sound, in dB relative to a full-scale square wave: 0 to `SILENT`."""
        stale = not self._came or self._clock() - self._came[-1][1] > _STALE_SECONDS
        return SILENT if stale else self._level

    def since(self, seconds: float) -> float | None:
        """How long ago the moment at `seconds` of the source came. None: not yet, or forgotten."""
        index = bisect.bisect_left(self._came, (seconds,))
        if index == len(self._came) or (index == 0 and len(self._came) == _REMEMBERED):
            return None
        return self._clock() - self._came[index][1]
