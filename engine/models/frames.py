"""Log-mel of any stretch of a recording, as NVIDIA's models read it: no frame depends on another.

16 kHz, a frame every 160 samples (10 ms), of 400 samples in the middle of 512; what lies outside of
the recording is silence.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lookhear.kernels import mel_filters

HOP = 160
FFT_SIZE = 512
WINDOW = 400
BEFORE = FFT_SIZE // 2 + 1  # samples in front of a frame's middle that it depends on
AFTER = FFT_SIZE // 2
GUARD = 2.0**-24


def num_frames(samples: int) -> int:
    """Of a recording that is over."""
    return samples // HOP


def num_final(samples: int) -> int:
    """Of a recording that goes on: those that no later sample changes."""
    return max(0, (samples - AFTER) // HOP + 1)


def stretch(
    samples: NDArray[np.float32], first: int, end: int, *, begin: int = 0, emphasis: float
) -> NDArray[np.float32]:
    """What the frames [first, end) depend on: [(end - first - 1) * HOP + FFT_SIZE].

    samples: of the recording from sample `begin` on. emphasis: of the sample before, that is taken
    away, so that high pitches count more.
    """
    low, high = first * HOP - AFTER, (end - 1) * HOP + AFTER
    assert begin == 0 or low > begin, (low, begin)
    found = np.zeros(high - low, np.float32)
    start, stop = max(low, 0), min(high, begin + len(samples))
    if start >= stop:
        return found
    here = samples[start - begin : stop - begin]
    found[start - low : stop - low] = here
    if start > 0:
        before = samples[start - 1 - begin : stop - 1 - begin]
        found[start - low : stop - low] -= np.float32(emphasis) * before
    else:
        found[1 - low : stop - low] -= np.float32(emphasis) * here[:-1]
    return found


@dataclass(frozen=True, slots=True)
class FrameFilters:
    """window: [512]. mel: [mels, 257]."""

    window: Tensor
    mel: Tensor


@cache
def frame_filters(num_mels: int, rounding: torch.dtype, device: torch.device) -> FrameFilters:
    """rounding: the precision that a checkpoint keeps its filters in."""
    window = torch.hann_window(WINDOW, periodic=False)
    edge = (FFT_SIZE - WINDOW) // 2
    window = torch.nn.functional.pad(window.to(rounding).float(), (edge, edge))
    mel = mel_filters(num_mels, FFT_SIZE // 2 + 1).to(rounding).float()
    return FrameFilters(window.to(device), mel.to(device))


@torch.inference_mode()
def log_mel_frames(stretch: Tensor, filters: FrameFilters) -> Tensor:
    """[(n - 1) * HOP + FFT_SIZE] float32 -> [n, mels]."""
    spectrum = torch.fft.rfft(stretch.unfold(0, FFT_SIZE, HOP) * filters.window)
    power = spectrum.real.square() + spectrum.imag.square()
    found: Tensor = (power @ filters.mel.T + GUARD).log()
    return found
