"""Sample-rate conversion: streaming with a short delay, and of whole recordings.

Recordings are libsoxr's. Live audio is filtered here if its rate is a multiple of 1 kHz: a Kaiser
window over a sinc (Oppenheim and Schafer, Discrete-Time Signal Processing, section 7.6), flat to
0.9 of the lower Nyquist frequency, aliases 96 dB down. It holds back at most 9 ms at 24 kHz, and
costs a third of libsoxr's variable-rate engine, which takes the other rates and holds back 10 ms.
(libsoxr's constant-rate engine works in blocks of 1024 or more samples: up to 37 ms.)
"""

from __future__ import annotations

from functools import cache
from typing import Protocol

import numpy as np
import soxr
from numpy.typing import NDArray

__all__ = ["StreamResampler", "resample"]

Samples = NDArray[np.float32]


ROW = 16  # output samples of one row of a matrix product
ROWS = 5  # of one product, always: so rounding does not depend on how much audio comes at once
ATTENUATION = 96.0  # dB
TRANSITION = 0.1  # of the lower Nyquist frequency


class _Engine(Protocol):
    def resample_chunk(self, samples: Samples, last: bool = False) -> Samples: ...


class _Filter:
    """`soxr.ResampleStream`, where `source_rate / target_rate * ROW` is a whole number."""

    def __init__(self, source_rate: int, target_rate: int) -> None:
        self._reach, self._kernel = _kernel(source_rate, target_rate)
        self._step = source_rate * ROW // target_rate
        # The input that outputs to come depend on: first silence, before the beginning.
        self._tail: Samples = np.zeros(self._reach, dtype=np.float32)

    def resample_chunk(self, samples: Samples, last: bool = False) -> Samples:
        parts = [self._tail, samples]
        if last:
            parts.append(np.zeros(2 * self._reach + ROWS * self._step, dtype=np.float32))
        heard = np.concatenate(parts)
        block = ROWS * self._step
        blocks = max((len(heard) - 2 * self._reach) // block, 0)
        self._tail = heard[blocks * block :]
        item = heard.itemsize
        shape = blocks, ROWS, self._step + 2 * self._reach
        strides = block * item, self._step * item, item
        rows = np.lib.stride_tricks.as_strided(heard, shape, strides)
        out: Samples = np.matmul(np.ascontiguousarray(rows), self._kernel).reshape(-1)
        return out


@cache
def _kernel(source_rate: int, target_rate: int) -> tuple[int, Samples]:
    """How many input samples on either side count, and [ROW * source / target + 2 * reach, ROW]:
    what each of them adds to each output of a row."""
    lower = min(source_rate, target_rate)
    width = TRANSITION * lower / 2 / source_rate  # cycles per input sample
    cutoff = lower / 2 / source_rate - width / 2
    beta = 0.1102 * (ATTENUATION - 8.7)
    reach = int(np.ceil((ATTENUATION - 8) / (2.285 * 2 * np.pi * width) / 2))
    step = source_rate * ROW // target_rate
    places = np.arange(ROW) * source_rate / target_rate
    distance = np.arange(-reach, step + reach)[:, None] - places
    inside = np.clip(1 - (distance / reach) ** 2, 0, None)
    window = np.where(np.abs(distance) <= reach, np.i0(beta * np.sqrt(inside)) / np.i0(beta), 0)
    return reach, (2 * cutoff * np.sinc(2 * cutoff * distance) * window).astype(np.float32)


class StreamResampler:
    """Mono float32 at `source_rate` in, mono float32 at `target_rate` out, any chunking.

    The output depends on the samples only, bit for bit, not on how they were split.
    After `flush()` the total is exactly `input * target_rate / source_rate`, rounded (half up).
    """

    def __init__(self, source_rate: int, target_rate: int, *, low_delay: bool = True) -> None:
        self.source_rate = source_rate
        self.target_rate = target_rate
        self.low_delay = low_delay
        self._stream: _Engine | None = None
        self.reset()

    def reset(self) -> None:
        """Forget everything fed so far."""
        self._fed = self._given = 0
        if self.source_rate == self.target_rate:
            return
        if self.low_delay and self.source_rate * ROW % self.target_rate == 0:
            self._stream = _Filter(self.source_rate, self.target_rate)
        else:
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
