"""Samples that come in at the end and go at the front, and where they may be cut."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lookhear.engine.messages import SAMPLE_RATE
from lookhear.engine.speech.live_config import LiveConfig

Samples = NDArray[np.float32]


class AudioBuffer:
    """A stretch of mono float32 audio. Appending and dropping cost what is appended and dropped, on
    average: not all is copied each time. What is kept moves to the front where there is room for
    it: memory that was never written to is dear.

    lead: samples of silence that are kept in front of it.
    """

    def __init__(self, lead: int = 0) -> None:
        self._lead = lead
        self._held: Samples = np.zeros(lead, np.float32)
        self._start, self._end = 0, lead  # of the silence, of the audio

    def __len__(self) -> int:
        return self._end - self._start - self._lead

    @property
    def samples(self) -> Samples:
        """A view, good until the next change."""
        return self._held[self._start + self._lead : self._end]

    @property
    def led_samples(self) -> Samples:
        """The silence, and the audio behind it. A view, good until the next `drop`."""
        return self._held[self._start : self._end]

    def append(self, samples: Samples) -> None:
        """Samples behind all others."""
        if self._end + len(samples) > len(self._held):
            kept = self.led_samples
            size = len(kept) + len(samples)
            larger = np.empty(2 * size, np.float32)
            larger[: len(kept)] = kept
            self._held, self._start, self._end = larger, 0, len(kept)
        self._held[self._end : self._end + len(samples)] = samples
        self._end += len(samples)

    def drop(self, count: int) -> None:
        """Forget the first count samples."""
        assert 0 <= count <= len(self)
        if not count:
            return
        self._start += count
        if self._start >= (size := self._end - self._start):
            self._held[:size] = self.led_samples
            self._start, self._end = 0, size
        self._held[self._start : self._start + self._lead] = 0.0


def quietest(samples: Samples, width: int = SAMPLE_RATE // 10) -> int:
    """Where a cut hits no word: offset of the middle of the quietest stretch of `width` samples (or
    the end, if shorter)."""
    if len(samples) <= width:
        return len(samples)
    energy = np.concatenate([[0.0], np.cumsum(np.square(samples, dtype=np.float64))])
    stretch = energy[width:] - energy[:-width]
    return int(np.argmin(stretch)) + width // 2


def cut(samples: Samples, settled: int, config: LiveConfig) -> int:
    """Where a segment is cut: nowhere while it is no longer than `cap`, or if there is too little
    to find a gap in; else at the quietest place among `search` samples that lie in its second half,
    and behind the first `settled`."""
    count, cap = len(samples), config.cap
    if count <= cap:
        return count
    low = max(settled, cap // 2)
    high = min(count, max(cap, low + config.search))
    return count if high - low < config.search else low + quietest(samples[low:high])
