"""Log-mel of audio that grows at its end, every frame computed once.

The frames of a whole clip (`kernels.log_mel`) depend on what comes later in two ways: the last one
or two look beyond the end, and all of them on the loudest value of the clip. So decades are kept
without any of that, and whoever reads a stretch of frames says how loud the loudest was.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

import kernels
from kernels.log_mel import log10_mel, normalised

HOP = 160  # samples from one frame to the next
EDGE = 200  # samples that a frame sees on either side of its middle


class GrowingLogMel:
    """num_mels: rows of a frame. Always on the CPU: a tick brings a handful of frames."""

    def __init__(self, num_mels: int) -> None:
        self._filters = kernels.mel_filters(num_mels)
        self._final = torch.zeros(num_mels, 0)  # frames that all their samples are known of
        self._frames = self._final  # those, and the last ones as they would be if the audio ended

    @property
    def num_frames(self) -> int:
        return self._frames.shape[1]

    @property
    def num_final(self) -> int:
        """Frames that no further audio can change."""
        return self._final.shape[1]

    @torch.inference_mode()
    def update(self, samples: NDArray[np.float32]) -> None:
        """samples: all the audio so far, at least 201; only its end may be new."""
        assert len(samples) > EDGE and len(samples) // HOP >= self.num_final
        done, count = self.num_final, len(samples) // HOP
        # From the first frame to compute on, with what it sees before its middle.
        first = done * HOP - EDGE
        wave = torch.from_numpy(samples[max(0, first) :])
        # Reflected at both ends, as a whole clip is.
        left = torch.from_numpy(samples[1 : max(0, -first) + 1]).flip(0)
        right = torch.from_numpy(samples[-EDGE - 1 : -1]).flip(0)
        padded = torch.cat([left, wave, right])[None]
        fresh = log10_mel(padded, self._filters)[0][:, : count - done]
        known = max(done, min(count, (len(samples) - EDGE) // HOP + 1))
        self._frames = torch.cat([self._final, fresh], dim=1)
        self._final = self._frames[:, :known]

    def cut(self, num_samples: int) -> None:
        """Forget what lies beyond so many samples."""
        known = max(0, (num_samples - EDGE) // HOP + 1)
        self._frames = self._final = self._final[:, :known]

    def loudest(self, end: int | None = None) -> float:
        """The largest value in frames 0 .. end (default: all)."""
        return float(self._frames[:, :end].max())

    def read(self, start: int, end: int, loudest: float) -> NDArray[np.float32]:
        """Frames start .. end as a model reads them: [mels, frames], about -1 to 1."""
        frames: Tensor = normalised(self._frames[:, start:end], loudest)
        return np.ascontiguousarray(frames.numpy())
