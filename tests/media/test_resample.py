"""The streaming filter: what may pass does, what would alias does not. Chunking: see test_pcm."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from media.resample import StreamResampler

RATES = [8000, 12000, 24000, 32000, 48000]  # the filter's own; the others are libsoxr's


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
def test_speech_passes_unchanged_and_in_time(rate: int, share: float) -> None:
    """share: of the lower Nyquist frequency."""
    frequency = round(share * min(rate, 16_000) / 2)
    at = np.arange(4000, 28_000) / 16_000
    expected = 0.5 * np.sin(2 * np.pi * frequency * at)
    assert np.abs(resampled(rate, frequency) - expected).max() < 0.5 * 10 ** (-90 / 20)


@pytest.mark.parametrize("rate", [24_000, 32_000, 48_000])
@pytest.mark.parametrize("frequency", [8100, 9000, 11_900])
def test_what_the_lower_rate_cannot_hold_is_gone(rate: int, frequency: float) -> None:
    assert np.abs(resampled(rate, frequency)).max() < 0.5 * 10 ** (-90 / 20)
