"""Where somebody speaks in a recording: on a voice, on noises, however loud."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray

from lookhear.media.voice.silero import SileroModel
from lookhear.media.voice.stretches import BLOCK, FILE_CONFIG, speech_stretches
from lookhear.media.voice.vad import RATE, VadConfig

DATA = Path(__file__).parents[1] / "data"
TOLERANCE = 0.25 * RATE  # samples

Samples = NDArray[np.float32]


@cache
def model() -> SileroModel:
    return SileroModel()


@cache
def speech() -> tuple[Samples, list[tuple[int, int]]]:
    samples, _ = soundfile.read(DATA / "speech.flac", dtype="float32")
    return samples, json.loads((DATA / "speech.json").read_text())["spans"]


def covers(found: list[tuple[int, int]], begin: int, end: int) -> bool:
    """Whether what was found begins and ends where speech does, whatever pauses are in between."""
    inside = [s for s in found if s[1] > begin and s[0] < end]
    edges = (begin - inside[0][0], end - inside[-1][1]) if inside else (TOLERANCE,)
    return all(abs(edge) < TOLERANCE for edge in edges)


@pytest.mark.parametrize("gain", [1.0, 0.02])
def test_voices_are_found_near_and_far(gain: float) -> None:
    samples, spans = speech()
    found = speech_stretches(model(), samples * np.float32(gain))
    assert all(covers(found, begin, end) for begin, end in spans)
    outside = sum(b - a for a, b in found) - sum(b - a for a, b in spans)
    assert outside < TOLERANCE * len(found)
    marks = [mark for span in found for mark in span]
    assert marks == sorted(marks) and 0 <= marks[0] and marks[-1] <= len(samples)


def noises(seconds: float) -> dict[str, Samples]:
    rng = np.random.default_rng(0)
    count = round(seconds * RATE)
    time = np.arange(count) / RATE
    clicks = np.zeros(count)
    clicks[rng.integers(0, count, count // RATE)] = 0.8
    chord = sum(np.sin(2 * np.pi * f * time) for f in (220.0, 277.2, 329.6)) * 0.1
    made = {
        "silence": np.zeros(count),
        "dither": 1e-5 * rng.normal(size=count),
        "white": 0.05 * rng.normal(size=count),
        "brown": np.cumsum(rng.normal(size=count)) * 1e-4,
        "hum": 0.2 * np.sin(2 * np.pi * 50 * time) + 0.1 * np.sin(2 * np.pi * 150 * time),
        "clicks": clicks,
        "chord": chord * np.exp(-(time % 2)),
    }
    return {name: sound.astype(np.float32) for name, sound in made.items()}


@pytest.mark.parametrize("name", noises(0.1))
def test_nobody_speaks_in_noises(name: str) -> None:
    assert speech_stretches(model(), noises(20.0)[name]) == []


def test_a_long_recording_is_judged_like_a_short_one() -> None:
    """Blocks carry over; what is far into a recording is found where it is."""
    samples, _ = speech()
    shift = BLOCK - len(samples) // 2 // 512 * 512  # whole windows, across the border of two blocks
    later = np.concatenate([np.zeros(shift, np.float32), samples])
    first = speech_stretches(model(), np.concatenate([np.zeros(512 * 8, np.float32), samples]))
    moved = [(a + shift - 512 * 8, b + shift - 512 * 8) for a, b in first]
    found = speech_stretches(model(), later)
    assert len(found) == len(moved)
    assert all(
        abs(a - b) <= 1024
        for x, y in zip(found, moved, strict=True)
        for a, b in zip(x, y, strict=True)
    )


def test_speech_to_the_very_end_and_none_at_all() -> None:
    samples, spans = speech()
    begin, end = spans[0]
    cut = samples[: (begin + end) // 2]
    assert speech_stretches(model(), cut)[-1][1] == len(cut)
    assert speech_stretches(model(), samples[:0]) == []


def test_settings_are_honoured() -> None:
    samples, _ = speech()
    deaf = VadConfig(threshold=1.0, prefix_padding_ms=0)
    assert speech_stretches(model(), samples, deaf) == []
    whole = VadConfig(prefix_padding_ms=100, silence_duration_ms=60_000)
    [(start, end)] = speech_stretches(model(), samples, whole)
    assert start == max(0, speech_stretches(model(), samples, FILE_CONFIG)[0][0] - 1600)
    assert end <= len(samples)
