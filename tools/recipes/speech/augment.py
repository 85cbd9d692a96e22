"""Augmentation: what rooms, microphones and telephones do to a voice.

Waveform functions take and return float32 arrays at 16 kHz; the spectral ones work on the
power spectrum or the log-mel of a whole batch, where a filter costs one multiplication.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from tools.recipes.speech.synthesis import SAMPLE_RATE

Samples = NDArray[np.float32]


def resample(x: Samples, factor: float) -> Samples:
    """Play `factor` times faster (and higher), by linear interpolation."""
    n = max(1, int(len(x) / factor))
    at = np.arange(n, dtype=np.float32) * factor
    out: Samples = np.interp(at, np.arange(len(x), dtype=np.float32), x).astype(np.float32)
    return out


def noise(rng: np.random.Generator, n: int) -> Samples:
    """`n` samples of unit-RMS noise: white, pink, brown, mains hum, or a mix."""
    kind = rng.integers(5)
    white = rng.standard_normal(n, dtype=np.float32)
    if kind == 0 or n < 64:
        return white
    if kind == 3:
        t = np.arange(n, dtype=np.float32) / SAMPLE_RATE
        base = float(rng.choice([50.0, 60.0, 100.0, 120.0]))
        out = 0.05 * white
        for k in range(1, 6):
            out += rng.uniform(0, 1 / k) * np.sin(2 * np.pi * (k * base * t + rng.random()))
        out = out.astype(np.float32)
    else:
        size = 1 << (n - 1).bit_length()
        spectrum = np.fft.rfft(white, size)
        tilt = {1: 0.5, 2: 1.0, 4: float(rng.uniform(0, 1.2))}[int(kind)]
        f = np.maximum(np.arange(len(spectrum)) / len(spectrum), 0.004)
        out = np.fft.irfft(spectrum * f**-tilt)[:n].astype(np.float32)
    return np.asarray(out / (np.sqrt(np.mean(out**2)) + 1e-9), dtype=np.float32)


def clicks(rng: np.random.Generator, n: int) -> Samples:
    """A few short decaying clicks and knocks."""
    x = np.zeros(n, dtype=np.float32)
    for _ in range(int(rng.integers(1, 6))):
        at, length = int(rng.integers(0, n)), int(rng.integers(16, 1200))
        burst = rng.standard_normal(length).astype(np.float32)
        burst *= np.exp(-np.arange(length) / (length / 6)).astype(np.float32)
        m = min(length, n - at)
        x[at : at + m] += burst[:m] * rng.uniform(0.2, 1.0)
    return x


def reverberate(rng: np.random.Generator, x: Samples) -> Samples:
    """Convolve with a synthetic room: exponentially decaying noise, RT60 0.1 to 0.6 s."""
    rt60 = rng.uniform(0.1, 0.6)
    n = int(rt60 * SAMPLE_RATE)
    tail = rng.standard_normal(n) * np.exp(-6.9 * np.arange(n) / n)
    tail[: int(0.002 * SAMPLE_RATE)] = 0
    tail *= rng.uniform(0.1, 0.7) / np.sqrt(np.sum(tail**2))
    tail[0] = 1.0
    size = 1 << (len(x) + n - 1).bit_length()
    wet = np.fft.irfft(np.fft.rfft(x, size) * np.fft.rfft(tail, size))[: len(x)]
    return wet.astype(np.float32)


def random_filters(rng: np.random.Generator, count: int, bins: int = 201) -> torch.Tensor:
    """Power responses `[count, bins, 1]`: tilt and ripple, some low-passed or telephone-band."""
    f = np.linspace(0, 8000, bins)
    out = np.ones((count, bins))
    for i in range(count):
        if rng.random() < 0.3:
            continue
        db = rng.uniform(-9, 9) * (f / 8000 - 0.5)
        for _ in range(3):
            db += rng.uniform(-5, 5) * np.cos(np.pi * (f / rng.uniform(700, 4000) + rng.random()))
        draw = rng.random()
        if draw < 0.12:
            db -= 12 * np.clip((f - rng.uniform(3000, 6500)) / 400, 0, 5)
        elif draw < 0.2:
            db -= 12 * np.clip((f - 3400) / 300, 0, 5) + 10 * np.clip((300 - f) / 100, 0, 3)
        out[i] = 10 ** (db / 10)
    return torch.from_numpy(out[:, :, None].astype(np.float32))


def mask_bands(rng: np.random.Generator, mel: torch.Tensor) -> torch.Tensor:
    """Light SpecAugment: per example up to one band of 12 mels and two gaps of 0.12 s."""
    for i in range(mel.shape[0]):
        fill = mel[i].amin()
        if rng.random() < 0.4:
            width, low = int(rng.integers(1, 13)), int(rng.integers(0, 68))
            mel[i, low : low + width] = fill
        for _ in range(2):
            if rng.random() < 0.3:
                width, at = int(rng.integers(1, 13)), int(rng.integers(0, mel.shape[2]))
                mel[i, :, at : at + width] = fill
    return mel
