"""ITU-T G.711 companding: 8-bit mu-law and A-law to and from 16-bit linear.

The arithmetic is that of the ITU-T reference code (G.191 software tool library, module G711):
mu-law carries 14 significant bits and A-law 13, both left-justified in 16.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

__all__ = ["alaw_table", "compress_alaw", "compress_mulaw", "mulaw_table"]

MULAW_BIAS = 33  # in 14-bit units: makes every segment start at a power of two
MULAW_PEAK = 0x1FFF
ALAW_TOGGLE = 0x55  # even bits are inverted on the line


@cache
def mulaw_table() -> NDArray[np.int16]:
    """[256] int16: the linear value of each mu-law byte."""
    code = np.arange(256)
    exponent = (~code >> 4) & 7
    mantissa = ~code & 15
    magnitude = ((2 * mantissa + 33) << exponent) - MULAW_BIAS
    return (4 * np.where(code < 128, -magnitude, magnitude)).astype(np.int16)


@cache
def alaw_table() -> NDArray[np.int16]:
    """[256] int16: the linear value of each A-law byte."""
    code = np.arange(256) ^ ALAW_TOGGLE
    exponent = (code >> 4) & 7
    mantissa = code & 15
    leading = np.where(exponent > 0, 16, 0)  # the first segment has no implied leading one
    magnitude = ((mantissa + leading) * 16 + 8) << np.maximum(exponent - 1, 0)
    return np.asarray(np.where(code < 128, -magnitude, magnitude), dtype=np.int16)


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
