"""Samples of any rate -> what goes over the wire: mono 16-bit PCM at 24 kHz."""

from __future__ import annotations

import numpy as np
import soxr
from numpy.typing import NDArray

from lookhear.errors import SourceError

RATE = 24_000  # samples per second on the wire
SAMPLE_BYTES = 2


def to_pcm(samples: NDArray[np.float32]) -> bytes:
    """Float samples in [-1, 1] as 16-bit little-endian PCM, clipped."""
    scaled: NDArray[np.float32] = np.rint(samples * np.float32(32768.0))
    return np.clip(scaled, -32768, 32767).astype("<i2").tobytes()


class PcmConverter:
    """Streaming converter: mono float or 16-bit PCM at `rate` -> 16-bit PCM at 24 kHz."""

    def __init__(self, rate: int) -> None:
        if not 4_000 <= rate <= 384_000:
            raise SourceError(f"sample rate: expected 4000 to 384000 Hz, got {rate}")
        self._resampler = (
            None if rate == RATE else soxr.ResampleStream(rate, RATE, 1, dtype="float32")
        )
        self._carry = b""

    def samples(self, samples: NDArray[np.float32], last: bool = False) -> bytes:
        """Float samples in [-1, 1], one-dimensional, at the given rate. last: nothing follows."""
        if self._resampler is not None:
            samples = self._resampler.resample_chunk(samples, last=last)
        return to_pcm(samples)

    def pcm(self, data: bytes, last: bool = False) -> bytes:
        """Chunks may split a sample; half a sample at the very end is dropped."""
        data = self._carry + data
        whole = len(data) - len(data) % SAMPLE_BYTES
        data, self._carry = data[:whole], data[whole:]
        if self._resampler is None:
            return data
        scale = np.float32(1 / 32768)
        return self.samples(np.frombuffer(data, "<i2").astype(np.float32) * scale, last)
