"""G.711 against the recommendation's own numbers and against FFmpeg's codec."""

from __future__ import annotations

from typing import Any

import av
import numpy as np
import pytest

from lookhear.media.audio.g711 import alaw_table, mulaw_table
from tests.media.audio.encoders import compress_alaw, compress_mulaw

EVERY_INT16 = np.arange(-32768, 32768).astype(np.int16)


def test_mulaw_values_of_the_recommendation() -> None:
    table = mulaw_table().astype(int)
    # Table 2a/G.711: the outermost and innermost codes of both signs, in 16-bit units.
    assert [table[code] for code in (0x80, 0x8F, 0x90, 0xFE, 0xFF)] == [32124, 16764, 15996, 8, 0]
    assert [table[code] for code in (0x00, 0x7E, 0x7F)] == [-32124, -8, 0]


def test_alaw_values_of_the_recommendation() -> None:
    table = alaw_table().astype(int)
    # Table 1a/G.711, after the inversion of the even bits.
    assert [table[code ^ 0x55] for code in (0xFF, 0xF0, 0x81, 0x80)] == [32256, 16896, 24, 8]
    assert [table[code ^ 0x55] for code in (0x7F, 0x01, 0x00)] == [-32256, -24, -8]


@pytest.mark.parametrize(
    ("table", "codec"), [(mulaw_table(), "pcm_mulaw"), (alaw_table(), "pcm_alaw")]
)
def test_decoding_equals_ffmpeg(table: np.ndarray, codec: str) -> None:
    decoder: Any = av.CodecContext.create(codec, "r")
    decoder.sample_rate = 8000
    decoder.layout = "mono"
    frames = decoder.decode(av.Packet(bytes(range(256))))
    assert np.array_equal(frames[0].to_ndarray()[0], table)


def mulaw_by_the_reference(linear: int) -> int:
    """ulaw_compress of G.191, bit by bit."""
    magnitude = min((~linear >> 2 if linear < 0 else linear >> 2) + 33, 0x1FFF)
    segment, rest = 1, magnitude >> 6
    while rest:
        segment, rest = segment + 1, rest >> 1
    code = (8 - segment) << 4 | (15 - (magnitude >> segment & 15))
    return code | 0x80 if linear >= 0 else code


def alaw_by_the_reference(linear: int) -> int:
    """alaw_compress of G.191, bit by bit."""
    code = ~linear >> 4 if linear < 0 else linear >> 4
    if code > 15:
        exponent = 1
        while code > 31:
            code, exponent = code >> 1, exponent + 1
        code += (exponent << 4) - 16
    return (code | 0x80 if linear >= 0 else code) ^ 0x55


def test_every_sample_gets_the_code_of_the_reference() -> None:
    values = EVERY_INT16.tolist()
    assert compress_mulaw(EVERY_INT16).tolist() == [mulaw_by_the_reference(v) for v in values]
    assert compress_alaw(EVERY_INT16).tolist() == [alaw_by_the_reference(v) for v in values]


@pytest.mark.parametrize(
    ("compress", "table"), [(compress_mulaw, mulaw_table()), (compress_alaw, alaw_table())]
)
def test_codes_survive_a_round_trip(compress: object, table: np.ndarray) -> None:
    assert callable(compress)
    assert np.array_equal(table[compress(table)], table)
