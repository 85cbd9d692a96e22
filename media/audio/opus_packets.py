"""Packets of Opus one by one, as calls have them, without a container around -> samples."""

from __future__ import annotations

from typing import Any

import av
import numpy as np
from numpy.typing import NDArray

from lookhear.media.audio.containers import mono, planes
from lookhear.media.audio.resample import StreamResampler
from lookhear.media.base import MediaError

__all__ = ["OpusPackets"]

Samples = NDArray[np.float32]

RATE = 48000  # of what is decoded, whatever was encoded
MOST_DAMAGED = 10  # packets more than good ones, by which they are none


class OpusPackets:
    """One stream of packets, in order (RFC 6716). Damaged ones are left out, as players do."""

    def __init__(self, target_rate: int = 16000) -> None:
        decoder: Any = av.CodecContext.create("opus", "r")
        decoder.sample_rate, decoder.layout = RATE, "stereo"  # of which one may be empty
        self._decoder = decoder
        self._resampler = StreamResampler(RATE, target_rate)
        self._blocks: list[Samples] = []
        self._balance = 0  # good packets, less damaged ones

    def feed(self, data: bytes) -> None:
        """The next packet. Raises MediaError: they are none."""
        try:
            frames = self._decoder.decode(av.Packet(data)) if data else []
        except av.FFmpegError:
            self._balance -= 1
            if self._balance < -MOST_DAMAGED:
                got = f"unknown data beginning with {data[:8].hex(' ')}"
                raise MediaError("not_audio", f"expected packets of Opus; got {got}") from None
            return
        self._balance += len(frames)
        self._blocks += [self._resampler.feed(mono(planes(frame))) for frame in frames]

    def end(self) -> None:
        """Nothing follows; the rest is to be taken."""
        self._blocks.append(self._resampler.flush())

    def take(self) -> tuple[Samples, bool]:
        """[n] float32 at `target_rate`, mono, and that there are no more."""
        blocks, self._blocks = self._blocks, []
        return np.concatenate([np.zeros(0, np.float32), *blocks]), False
