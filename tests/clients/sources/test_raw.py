"""Raw audio of any common format."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookhear.sources.raw import RawConverter, RawFormat


def encoded(samples: np.ndarray[tuple[int], np.dtype[np.float64]], width: int) -> bytes:
    whole = np.rint(samples * 2.0 ** (8 * width - 1)).astype(np.int64)
    if width == 1:
        return (whole + 128).astype(np.uint8).tobytes()
    return b"".join(int(value).to_bytes(width, "little", signed=True) for value in whole)


@pytest.mark.parametrize("width", [1, 2, 3, 4])
@pytest.mark.parametrize("channels", [1, 2, 3])
def test_every_format_is_the_same_sound(width: int, channels: int) -> None:
    tone = 0.5 * np.sin(np.arange(4800) / 8)
    data = encoded(np.repeat(tone, channels), width)
    converter = RawConverter(RawFormat(24_000, width, channels))
    heard = np.frombuffer(converter.feed(data, last=True), "<i2")
    assert len(heard) == len(tone)
    assert np.abs(heard / 32768 - tone).max() <= (0.005 if width == 1 else 1 / 32768)


@given(st.lists(st.integers(0, 700), max_size=8), st.sampled_from([(2, 1), (2, 2), (3, 2), (1, 1)]))
def test_where_chunks_are_cut_changes_nothing(cuts: list[int], form: tuple[int, int]) -> None:
    data = bytes(range(256)) * 3
    format = RawFormat(16_000, *form)
    whole = RawConverter(format).feed(data, last=True)
    converter, edges = RawConverter(format), [0, *sorted(cuts), len(data)]
    told = [converter.feed(data[a:b]) for a, b in zip(edges, edges[1:], strict=False)]
    assert b"".join(told) + converter.feed(b"", last=True) == whole


@given(st.lists(st.integers(0, 9_600), max_size=8))
def test_channels_that_cancel_each_other_out_are_heard(cuts: list[int]) -> None:
    tone = 0.5 * np.sin(np.arange(2400) / 8)
    data = encoded(np.stack([tone, -tone], axis=1).ravel(), 2)
    converter, edges = RawConverter(RawFormat(24_000, 2, 2)), [0, *sorted(cuts), len(data)]
    told = [converter.feed(data[a:b]) for a, b in zip(edges, edges[1:], strict=False)]
    heard = np.frombuffer(b"".join(told) + converter.feed(b"", last=True), "<i2")
    assert np.abs(heard / 32768 - tone).max() <= 1 / 32768
