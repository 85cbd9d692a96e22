"""Sounds in which nobody says anything. Real models write words for all of them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from lookhear.bench.measures.trace import RATE

Sound = NDArray[np.float64]
HUM_HERTZ = 50.0
# Of chords: root, third, fifth, octave, in hertz; a bar each.
CHORDS = (
    (220.0, 261.6, 329.6),
    (174.6, 220.0, 261.6),
    (196.0, 246.9, 293.7),
    (261.6, 329.6, 392.0),
)
BAR_SECONDS = 1.5


def silence(seconds: float, draw: np.random.Generator) -> Sound:
    """[n] zeros."""
    return np.zeros(int(seconds * RATE))


def white_noise(seconds: float, draw: np.random.Generator) -> Sound:
    """[n] samples of a root mean square of 1."""
    return draw.standard_normal(int(seconds * RATE))


def noise(seconds: float, draw: np.random.Generator) -> Sound:
    """Pink: [n] samples of a root mean square of 1, with as much power in each octave."""
    count = int(seconds * RATE)
    spectrum = np.fft.rfft(draw.standard_normal(count))
    hertz = np.fft.rfftfreq(count, 1 / RATE)
    pink = np.fft.irfft(spectrum / np.sqrt(np.maximum(hertz, 20.0)), count)
    return np.asarray(pink / pink.std())


def hum(seconds: float, draw: np.random.Generator) -> Sound:
    """Of the mains, with overtones: [n] samples of a root mean square of about 1."""
    at = np.arange(int(seconds * RATE)) / RATE
    return np.asarray(
        sum(np.sin(2 * np.pi * HUM_HERTZ * n * at + draw.uniform(0, 6)) / n for n in (1, 2, 3, 5))
    )


def clicks(seconds: float, draw: np.random.Generator) -> Sound:
    """Some three a second, as of keys: [n] samples, decaying bursts of noise."""
    found = np.zeros(int(seconds * RATE))
    burst = np.exp(-np.arange(RATE // 100) / (RATE / 1000))
    for at in np.sort(draw.uniform(0, max(0.0, seconds - 0.02), int(3 * seconds))):
        start = int(at * RATE)
        found[start : start + len(burst)] += 3 * burst * draw.standard_normal(len(burst))
    return found


def chords(seconds: float, draw: np.random.Generator) -> Sound:
    """Music of a kind: plucked triads, a bar each, [n] samples of a root mean square of about 1."""
    count = int(seconds * RATE)
    bar = np.arange(int(BAR_SECONDS * RATE)) / RATE
    bars = [
        sum(
            np.sin(2 * np.pi * hertz * n * bar + draw.uniform(0, 6)) / n**2
            for hertz in chord
            for n in (1, 2, 3, 4)
        )
        * np.exp(-bar)
        for chord in CHORDS
    ]
    return np.tile(np.concatenate(bars), -(-count // (len(bars) * len(bar))))[:count]


# name -> (maker, its level, of full scale)
NOBODY: dict[str, tuple[Callable[[float, np.random.Generator], Sound], float]] = {
    "silence": (silence, 0.0),
    "white noise": (white_noise, 0.02),
    "pink noise": (noise, 0.05),
    "hum": (hum, 0.05),
    "clicks": (clicks, 0.1),
    "chords": (chords, 0.08),
}
