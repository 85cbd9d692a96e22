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

from lookhear.engine.models.audio_chunks import host_filters
from lookhear.engine.paged.sound import EDGE, HOP
from lookhear.kernels.log_mel import limited, log10_mel, unlimited


class GrowingLogMel:
    """num_mels: rows of a frame. Always on the CPU.

    num_frames: known, final or not. num_final: those that no further audio can change.
    """

    def __init__(self, num_mels: int) -> None:
        self._filters = host_filters(num_mels)
        # Frames from _first on, as models read them but for the loudest; behind them is room for
        # more. All but the last one or two are final: those are as if the audio ended here.
        self._held = torch.zeros(num_mels, 0)
        self._first = self.num_frames = self.num_final = 0
        self._peaks = np.zeros(0, np.float32)  # of each frame from 0 on, decades; and room

    @torch.inference_mode()
    def update(self, samples: NDArray[np.float32]) -> None:
        """samples: all the audio so far, at least 201; only its end may be new."""
        assert len(samples) > EDGE and len(samples) // HOP >= self.num_final
        done, count = self.num_final, len(samples) // HOP
        if done < count:
            # From the first frame to compute on, with what it sees before its middle.
            start = done * HOP - EDGE
            # Reflected at both ends, as a whole clip is.
            parts = [samples[max(0, start) :], samples[-2 : -EDGE - 2 : -1]]
            if start < 0:
                parts.insert(0, samples[-start:0:-1])
            padded = torch.from_numpy(np.concatenate(parts))[None]
            fresh = log10_mel(padded, self._filters)[0, :, : count - done]
            self._make_room(count)
            self._peaks[done:count] = fresh.amax(0).numpy()
            place = slice(done - self._first, count - self._first)
            self._held[:, place] = unlimited(fresh)
        self.num_frames = count
        self.num_final = max(done, min(count, (len(samples) - EDGE) // HOP + 1))

    def _make_room(self, count: int) -> None:
        """For frames up to count; what is there and final stays."""
        known = self.num_final
        if count > len(self._peaks):
            self._peaks = np.concatenate([self._peaks[:known], np.empty(2 * count, np.float32)])
        if count - self._first > self._held.shape[1]:
            larger = torch.empty(len(self._filters), 2 * (count - self._first))
            larger[:, : known - self._first] = self._held[:, : known - self._first]
            self._held = larger

    @torch.inference_mode()
    def drop(self, first: int) -> None:
        """Frames before the first will not be read again."""
        assert self._first <= first <= self.num_final, (self._first, first, self.num_final)
        kept = self._held[:, first - self._first : self.num_frames - self._first].clone()
        self._held[:, : kept.shape[1]] = kept
        self._first = first

    def cut(self, count: int, first: int = 0) -> None:
        """The audio shall go on behind so many frames. first: of those that will be read; if it
        was dropped, the next update computes it again."""
        self.num_final = min(self.num_final, count)
        if first < self._first:
            self._first = self.num_final = first
        self.num_frames = self.num_final

    def loudest(self, end: int | None = None) -> float:
        """The largest value in frames 0 .. end (default: all), decades."""
        return float(self._peaks[: self.num_frames if end is None else end].max())

    def read(self, start: int, end: int, loudest: float) -> NDArray[np.float32]:
        """Frames start .. end as a model reads them: [mels, frames], about -1 to 1."""
        assert self._first <= start, f"expected frames from {self._first} on, got {start}"
        end = min(end, self.num_frames)
        frames: Tensor = limited(self._held[:, start - self._first : end - self._first], loudest)
        return np.ascontiguousarray(frames.numpy())
