"""Samples of any rate -> what goes over the wire: mono 16-bit PCM at 24 kHz."""

from __future__ import annotations

import numpy as np
import soxr
from numpy.typing import NDArray

from lookhear.errors import SourceError

RATE = 24_000  # samples per second on the wire
LOWEST_RATE, HIGHEST_RATE = 4_000, 384_000  # of a source
SAMPLE_BYTES = 2
WIDTHS = (1, 2, 3, 4)  # bytes of a sample of whole numbers; one byte is unsigned, more are signed
CANCELLED = 0.01  # of the power of two channels, in their mean: -20 dB


def from_whole(data: bytes, width: int) -> NDArray[np.float32]:
    """Little-endian whole numbers of so many bytes -> [n] in [-1, 1)."""
    if width == 1:
        return (np.frombuffer(data, np.uint8).astype(np.float32) - 128) / np.float32(128)
    if width == 3:  # the upper three bytes of a number of four
        wide = np.zeros((len(data) // 3, 4), np.uint8)
        wide[:, 1:] = np.frombuffer(data, np.uint8).reshape(-1, 3)
        data, width = wide.tobytes(), 4
    scale = np.float32(2.0 ** -(8 * width - 1))
    return np.frombuffer(data, f"<i{width}").astype(np.float32) * scale


def mixed(channels: NDArray[np.float32]) -> NDArray[np.float32]:
    """[n, channels] -> [n], the mean; of two that cancel each other out (a line with its poles
    swapped) the first. As servers do with a file."""
    first: NDArray[np.float32] = channels[:, 0]
    mean: NDArray[np.float32] = channels.mean(axis=1, dtype=np.float32)
    is_pair = channels.shape[1] == 2
    if is_pair and 2 * np.square(mean).sum() < CANCELLED * np.square(channels).sum():
        return first
    return mean


def to_pcm(samples: NDArray[np.float32]) -> bytes:
    """Float samples in [-1, 1] as 16-bit little-endian PCM, clipped."""
    scaled: NDArray[np.float32] = np.rint(samples * np.float32(32768.0))
    return np.clip(scaled, -32768, 32767).astype("<i2").tobytes()


class PcmConverter:
    """Streaming converter: mono float or 16-bit PCM at `rate` -> 16-bit PCM at 24 kHz."""

    def __init__(self, rate: int) -> None:
        if not LOWEST_RATE <= rate <= HIGHEST_RATE:
            expected = f"{LOWEST_RATE} to {HIGHEST_RATE} Hz"
            raise SourceError(f"sample rate: expected {expected}, got {rate}")
        self._resampler = (
            None if rate == RATE else soxr.ResampleStream(rate, RATE, 1, dtype="float32")
        )
        self._carry = b""

    def samples(self, samples: NDArray[np.float32], last: bool = False) -> bytes:
        """Float samples in [-1, 1], one-dimensional, at the given rate; what is no number becomes
        silence. last: nothing follows."""
        samples = np.nan_to_num(samples, nan=0.0, posinf=0.0, neginf=0.0).clip(-1.0, 1.0)
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
