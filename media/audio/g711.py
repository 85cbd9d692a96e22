"""ITU-T G.711 companding: 8-bit mu-law and A-law to 16-bit linear.

The arithmetic is that of the ITU-T reference code (G.191 software tool library, module G711):
mu-law carries 14 significant bits and A-law 13, both left-justified in 16.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

__all__ = ["alaw_table", "mulaw_table"]

MULAW_BIAS = 33  # in 14-bit units: makes every segment start at a power of two
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
