"""Samples that come in at the end and go at the front, without copying all of them each time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Samples = NDArray[np.float32]


class AudioBuffer:
    """A stretch of mono float32 audio. Appending costs what is appended, on average."""

    def __init__(self) -> None:
        self._held: Samples = np.zeros(0, np.float32)
        self._start = self._end = 0

    def __len__(self) -> int:
        return self._end - self._start

    @property
    def samples(self) -> Samples:
        """A view, good until the next change."""
        return self._held[self._start : self._end]

    def append(self, samples: Samples) -> None:
        if self._end + len(samples) > len(self._held):
            kept = self.samples
            size = len(kept) + len(samples)
            larger = np.empty(2 * size, np.float32)
            larger[: len(kept)] = kept
            self._held, self._start, self._end = larger, 0, len(kept)
        self._held[self._end : self._end + len(samples)] = samples
        self._end += len(samples)

    def drop(self, count: int) -> None:
        """Forget the first count samples."""
        assert 0 <= count <= len(self)
        self._start += count
