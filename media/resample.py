"""Sample-rate conversion: one streaming resampler with a short delay, one for whole recordings.

Both are libsoxr. Its constant-rate engine works in blocks of 1024 or more samples and holds back
up to 37 ms at 24 kHz and 115 ms at 8 kHz; its variable-rate engine, run at a constant ratio, holds
back a fixed 10 ms at 24 kHz and 30 ms at 8 kHz, with noise and aliases still 114 dB down.
Live audio takes the second.
"""

from __future__ import annotations

import numpy as np
import soxr
from numpy.typing import NDArray

__all__ = ["StreamResampler", "resample"]

Samples = NDArray[np.float32]


class StreamResampler:
    """Mono float32 at `source_rate` in, mono float32 at `target_rate` out, any chunking.

    The output depends on the samples only, bit for bit, not on how they were split.
    After `flush()` the total is exactly `input * target_rate / source_rate`, rounded (half up).
    """

    def __init__(self, source_rate: int, target_rate: int, *, low_delay: bool = True) -> None:
        self.source_rate = source_rate
        self.target_rate = target_rate
        self.low_delay = low_delay
        self._stream: soxr.ResampleStream | None = None
        self.reset()

    def reset(self) -> None:
        """Forget everything fed so far."""
        self._fed = self._given = 0
        if self.source_rate != self.target_rate:
            self._stream = soxr.ResampleStream(
                self.source_rate,
                self.target_rate,
                1,
                dtype="float32",
                quality="HQ",
                vr=self.low_delay,
            )

    def feed(self, samples: Samples) -> Samples:
        """samples: [n] -> [m], the m output samples that are now certain."""
        if self._stream is None or not len(samples):
            return samples
        output = np.asarray(self._stream.resample_chunk(samples), dtype=np.float32)
        self._fed += len(samples)
        self._given += len(output)
        return output

    def flush(self) -> Samples:
        """The tail still held back, as if silence followed. The resampler then starts anew."""
        if self._stream is None:
            return np.zeros(0, dtype=np.float32)
        nothing = np.zeros(0, dtype=np.float32)
        tail = np.asarray(self._stream.resample_chunk(nothing, last=True), dtype=np.float32)
        # soxr's own total is up to two samples off, depending on the ratio.
        total = (2 * self._fed * self.target_rate + self.source_rate) // (2 * self.source_rate)
        missing = max(total - self._given, 0)
        self.reset()
        return np.pad(tail[:missing], (0, max(missing - len(tail), 0)))


def resample(samples: Samples, source_rate: int, target_rate: int) -> Samples:
    """A whole recording: [n] mono at `source_rate` -> [m] at `target_rate`."""
    if source_rate == target_rate or not len(samples):
        return samples
    return np.asarray(soxr.resample(samples, source_rate, target_rate, quality="HQ"), np.float32)
