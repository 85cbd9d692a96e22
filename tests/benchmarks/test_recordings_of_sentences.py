"""Sentences are read out of long recordings without what is around them, and are the same."""

from __future__ import annotations

import numpy as np
import pytest
import soundfile
import soxr

from lookhear.bench.measures.trace import RATE
from lookhear.bench.recordings.dataset import DATA, Audio, held_out, long_recordings, stretch


@pytest.fixture(scope="module", params=["en_questions_seen.opus", "long_de.opus"])
def whole(request: pytest.FixtureRequest) -> tuple[str, np.ndarray, int]:
    """A file's name, all of its samples and its rate."""
    samples, rate = soundfile.read(DATA / request.param, dtype="float32")
    return request.param, samples, rate


def test_a_stretch_is_what_stands_in_the_whole(whole: tuple[str, np.ndarray, int]) -> None:
    name, samples, rate = whole
    seconds = len(samples) / rate
    for start in np.linspace(0.0, seconds - 1.0, 40):
        part, own_rate = stretch(DATA / name, start, start + 2.5)
        assert own_rate == rate
        first = int(start * rate)
        np.testing.assert_array_equal(part, samples[first : int((start + 2.5) * rate)])


def test_an_utterance_sounds_as_in_the_whole_resampled() -> None:
    (recording, *_), audio = long_recordings(), Audio()
    every = [u for u in held_out() if u.file == "en_seen.opus"][::40]
    for utterance in (recording, *every):
        samples, rate = soundfile.read(DATA / utterance.file, dtype="float32")
        all_of_it = np.rint(soxr.resample(samples, rate, RATE) * 32768.0).clip(-32768, 32767)
        expected = all_of_it[int(utterance.start * RATE) : int(utterance.end * RATE)]
        heard = audio.of(utterance)
        assert len(heard) == len(expected) and audio.of(utterance) is heard
        assert np.abs(heard - expected).max() <= 1
