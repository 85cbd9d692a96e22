"""Raw audio of any common format, cut anywhere -> mono 16-bit PCM at 24 kHz."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lookhear.sources.pcm import SAMPLE_BYTES, PcmConverter, from_whole, mixed

MIXED_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class RawFormat:
    """rate: samples per second of each channel. width: bytes of a sample, little-endian; floats
    have four."""

    rate: int
    width: int
    channels: int
    is_float: bool = False

    def __str__(self) -> str:
        return f"{self.rate} Hz, {self.width} bytes, {self.channels} channels"


class RawConverter:
    """Of one format. Two channels wait until there is a stretch of them: whether they cancel each
    other out is not to depend on where chunks are cut. SourceError for a rate that is none."""

    def __init__(self, format: RawFormat) -> None:
        self.format = format
        self._wire = PcmConverter(format.rate)
        self._frame = format.width * format.channels
        self._stretch = round(format.rate * MIXED_SECONDS) if format.channels == 2 else 1
        self._carry = b""

    def feed(self, data: bytes, *, last: bool = False) -> bytes:
        """last: nothing follows; what is no whole sample of all channels is dropped."""
        data = self._carry + data
        size = self._frame if last else self._frame * self._stretch
        whole = len(data) - len(data) % size
        data, self._carry = data[:whole], data[whole:]
        form = self.format
        if (form.width, form.channels) == (SAMPLE_BYTES, 1):
            return self._wire.pcm(data, last)
        samples = np.frombuffer(data, "<f4") if form.is_float else from_whole(data, form.width)
        frames = samples.reshape(-1, form.channels)
        step = self._stretch if form.channels == 2 else max(1, len(frames))
        parts = [mixed(frames[at : at + step]) for at in range(0, len(frames), step)]
        return self._wire.samples(np.concatenate([frames[:0, 0], *parts]), last)
