"""Samples -> raw audio as clients send it: PCM16, G.711 mu-law and A-law bytes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lookhear.media.audio.g711 import ALAW_TOGGLE, MULAW_BIAS
from lookhear.media.audio.resample import Linear

Samples = NDArray[np.float32]

FULL_SCALE = 32768.0
MULAW_PEAK = 0x1FFF


def _magnitude(linear: NDArray[np.int16]) -> NDArray[np.int32]:
    wide = linear.astype(np.int32)
    return np.asarray(np.where(wide < 0, ~wide, wide), dtype=np.int32)


def _exponent(value: NDArray[np.int32]) -> NDArray[np.int32]:
    """floor(log2(value)) of positive integers, exact."""
    return (np.frexp(value.astype(np.float64))[1] - 1).astype(np.int32)


def compress_mulaw(linear: NDArray[np.int16]) -> NDArray[np.uint8]:
    """int16 [n] -> mu-law bytes [n]."""
    biased = np.minimum((_magnitude(linear) >> 2) + MULAW_BIAS, MULAW_PEAK)
    segment = _exponent(biased) - 5
    code = (segment << 4) | ((biased >> (segment + 1)) & 15)
    return np.asarray(~(code | np.where(linear < 0, 0x80, 0)) & 0xFF, dtype=np.uint8)


def compress_alaw(linear: NDArray[np.int16]) -> NDArray[np.uint8]:
    """int16 [n] -> A-law bytes [n]."""
    magnitude = _magnitude(linear) >> 4
    segment = np.maximum(_exponent(np.maximum(magnitude, 1)) - 3, 0)
    mantissa = (magnitude >> np.maximum(segment - 1, 0)) & 15
    code = (segment << 4) | mantissa | np.where(linear < 0, 0, 0x80)
    return np.asarray(code ^ ALAW_TOGGLE, dtype=np.uint8)


def _to_int16(samples: Samples) -> Linear:
    scaled = np.rint(np.asarray(samples, dtype=np.float32) * np.float32(FULL_SCALE))
    return np.asarray(np.clip(scaled, -FULL_SCALE, FULL_SCALE - 1), dtype=np.int16)


def encode_pcm16(samples: Samples) -> bytes:
    """[n] in [-1, 1] -> signed 16-bit little-endian bytes; louder samples are clipped."""
    return _to_int16(samples).astype("<i2").tobytes()


def encode_mulaw(samples: Samples) -> bytes:
    """[n] in [-1, 1] -> G.711 mu-law bytes."""
    return compress_mulaw(_to_int16(samples)).tobytes()


def encode_alaw(samples: Samples) -> bytes:
    """[n] in [-1, 1] -> G.711 A-law bytes."""
    return compress_alaw(_to_int16(samples)).tobytes()
