"""Streams at another rate: what may pass does, what would alias does not. See also test_pcm."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from lookhear.media.audio.resample import StreamResampler

RATES = [8000, 12000, 24000, 32000, 44100, 48000]


def resampled(rate: int, frequency: float) -> NDArray[np.float32]:
    """Two seconds of a tone at half of full scale, at 16 kHz; less where it begins and ends."""
    seconds = np.arange(2 * rate) / rate
    stream = StreamResampler(rate, 16_000)
    tone = (0.5 * np.sin(2 * np.pi * frequency * seconds)).astype(np.float32)
    whole = np.concatenate([stream.feed(tone), stream.flush()])
    assert len(whole) == 32_000
    return whole[4000:-4000]


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("share", [0.02, 0.3, 0.88])
def test_speech_is_as_loud_as_before(rate: int, share: float) -> None:
    """share: of the lower Nyquist frequency. Within a tenth of a decibel."""
    frequency = round(share * min(rate, 16_000) / 2)
    loudness = np.sqrt(np.mean(resampled(rate, frequency).astype(np.float64) ** 2))
    assert abs(20 * np.log10(loudness / (0.5 / np.sqrt(2)))) < 0.1


@pytest.mark.parametrize("rate", [24_000, 32_000, 44_100, 48_000])
@pytest.mark.parametrize("frequency", [8500, 9000, 11_900])
def test_what_the_lower_rate_cannot_hold_is_gone(rate: int, frequency: float) -> None:
    assert np.abs(resampled(rate, frequency)).max() < 0.5 * 10 ** (-90 / 20)


@pytest.mark.parametrize("rate", [*RATES, 16_000])
def test_whole_numbers_give_what_the_same_fractions_give(rate: int) -> None:
    numbers = np.random.default_rng(rate).integers(-32768, 32768, 3 * rate // 10).astype(np.int16)
    exact, floats = StreamResampler(rate, 16_000), StreamResampler(rate, 16_000)
    got = np.concatenate([exact.feed(numbers), exact.flush()])
    expected = np.concatenate(
        [floats.feed(numbers.astype(np.float32) / np.float32(32768)), floats.flush()]
    )
    assert got.dtype == np.float32
    assert np.array_equal(got, expected)
