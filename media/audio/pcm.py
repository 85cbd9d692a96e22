"""Raw audio on the wire: PCM16, G.711 mu-law and A-law bytes to float32 samples."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from lookhear.media.audio.g711 import alaw_table, mulaw_table
from lookhear.media.audio.resample import Linear, StreamResampler

__all__ = [
    "AudioFormat",
    "AudioFormatError",
    "Packing",
    "PcmStream",
    "decode_alaw",
    "decode_mulaw",
    "decode_pcm16",
]

Samples = NDArray[np.float32]

PCM_RATES = (8000, 48000)  # accepted range for audio/pcm, both ends included
DEFAULT_PCM_RATE = 24000
G711_RATE = 8000


def decode_pcm16(data: bytes) -> Linear:
    """Signed 16-bit little-endian mono -> [len(data) // 2] int16. Whole samples only."""
    return np.frombuffer(data, dtype="<i2")


def decode_mulaw(data: bytes) -> Linear:
    """G.711 mu-law mono -> [len(data)] int16."""
    return mulaw_table()[np.frombuffer(data, dtype=np.uint8)]


def decode_alaw(data: bytes) -> Linear:
    """G.711 A-law mono -> [len(data)] int16."""
    return alaw_table()[np.frombuffer(data, dtype=np.uint8)]


class AudioFormatError(ValueError):
    """An audio format that we cannot take. `field` is "type" or "rate"."""

    def __init__(self, field: str, expected: str, got: object) -> None:
        super().__init__(f"{field}: expected {expected}; got {got!r}")
        self.field = field
        self.expected = expected
        self.got = got


WAV_TAGS = {"audio/pcm": 1, "audio/pcma": 6, "audio/pcmu": 7}
DECODERS = {"audio/pcm": decode_pcm16, "audio/pcmu": decode_mulaw, "audio/pcma": decode_alaw}


Packing = Literal["container", "opus"]
"""Of audio that is not raw: a container, which says what is in it, or packets of Opus, one each
message."""


@dataclass(frozen=True)
class AudioFormat:
    """How the bytes of a raw stream are to be read. channels: that are heard as one; their samples
    lie side by side."""

    kind: str = "audio/pcm"
    rate: int = DEFAULT_PCM_RATE
    channels: int = 1

    @classmethod
    def parse(cls, type: object, rate: object = None) -> AudioFormat:
        """Checks what a client sent. `rate` None: 24000 for audio/pcm, 8000 for G.711.

        Raises AudioFormatError with the field's name, what it may be and what it was.
        """
        if not isinstance(type, str) or type not in DECODERS:
            raise AudioFormatError("type", " or ".join(repr(kind) for kind in DECODERS), type)
        low, high = PCM_RATES if type == "audio/pcm" else (G711_RATE, G711_RATE)
        if rate is None:
            return cls(type, DEFAULT_PCM_RATE if type == "audio/pcm" else G711_RATE)
        if isinstance(rate, bool) or not isinstance(rate, int) or not low <= rate <= high:
            span = f"an integer from {low} to {high} (Hz)" if low < high else f"{low} (Hz)"
            raise AudioFormatError("rate", f"{span} for {type}", rate)
        return cls(type, rate)

    @property
    def sample_bytes(self) -> int:
        """Of all channels together."""
        return self.channels * (2 if self.kind == "audio/pcm" else 1)

    def as_wav(self, data: bytes) -> bytes:
        """A file with such a stream; half a sample at its end is dropped."""
        size, width = len(data) - len(data) % self.sample_bytes, self.sample_bytes
        bits = 8 * width // self.channels
        form = WAV_TAGS[self.kind], self.channels, self.rate, self.rate * width, width, bits
        head = b"RIFF" + struct.pack("<I", 36 + size) + b"WAVEfmt " + struct.pack("<I", 16)
        return head + struct.pack("<HHIIHH", *form) + b"data" + struct.pack("<I", size) + data


class PcmStream:
    """Bytes of a raw stream, split anywhere, -> float32 mono samples at `target_rate`.

    The samples depend on the bytes only, bit for bit, not on how they were split. Up to `flush()`
    some milliseconds stay in the resampler; after it the total is exactly
    `samples_in * target_rate / format.rate`, rounded (half up).
    """

    def __init__(self, format: AudioFormat, target_rate: int = 16000) -> None:
        self.format = format
        self.target_rate = target_rate
        self.dropped_bytes = 0  # halves of samples that never got their other half
        self._decode = DECODERS[format.kind]
        self._resampler = StreamResampler(format.rate, target_rate)
        self._carry = b""

    def feed(self, data: bytes) -> Samples:
        """data: any number of bytes -> [m], the samples that are now certain (m may be 0)."""
        if self._carry:
            data = self._carry + data
        whole = len(data) - len(data) % self.format.sample_bytes
        self._carry = bytes(data[whole:])
        linear = self._decode(data[:whole])
        if (channels := self.format.channels) > 1:
            linear = np.rint(linear.reshape(-1, channels).mean(axis=1)).astype(np.int16)
        return self._resampler.feed(linear)

    def flush(self) -> Samples:
        """The end of a turn: the resampler's tail. Half a sample is dropped and counted.

        The stream may be fed again; it then begins anew, as after silence.
        """
        self.dropped_bytes += len(self._carry)
        self._carry = b""
        return self._resampler.flush()

    def reset(self) -> None:
        """Forget what was fed and not given out yet (the count of dropped bytes stays)."""
        self._carry = b""
        self._resampler.reset()
