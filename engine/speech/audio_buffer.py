"""Samples that come in at the end and go at the front, and where they may be cut."""

from __future__ import annotations

import numpy as np

from lookhear.engine.core.audio import Audio, Samples
from lookhear.engine.messages import SAMPLE_RATE
from lookhear.engine.speech.live_config import LiveConfig

LEAST = 8 * SAMPLE_RATE  # to begin small would be to move a dozen times; what is not used is free


class AudioBuffer:
    """A stretch of mono float32 audio. Appending and dropping cost what is appended and dropped, on
    average: not all is copied each time. Pieces stay where they came until all is wanted in one;
    then what is kept moves to the front where there is room for it: memory that was never written
    to is dear.

    lead: samples of silence that are kept in front of it.
    """

    def __init__(self, lead: int = 0) -> None:
        self._lead = lead
        self._held: Samples = np.zeros(lead, np.float32)
        self._start, self._end = 0, lead  # of the silence, of the audio that is in one
        self._pieces: list[Samples] = []  # behind it
        self._pending = 0  # samples of these

    def __len__(self) -> int:
        return self._end - self._start - self._lead + self._pending

    @property
    def samples(self) -> Samples:
        """A view, good until the next change."""
        return self.led_samples[self._lead :]

    @property
    def led_samples(self) -> Samples:
        """The silence, and the audio behind it. A view, good until the next `drop`."""
        if self._pieces:
            self._join()
        return self._held[self._start : self._end]

    def led(self, count: int) -> Audio:
        """The first count of `led_samples`, good as long; looked at when they are asked for."""
        return _Led(self, count)

    def part(self, start: int, end: int) -> Samples:
        """Of `led_samples`; of their end, without having them in one."""
        joined = self._end - self._start
        if end <= joined:
            return self._held[self._start + start : self._start + end]
        found: list[Samples] = []
        last = joined + self._pending
        for piece in reversed(self._pieces):
            first = last - len(piece)
            if first < end:
                found.append(piece[max(0, start - first) : end - first])
            last = first
            if first <= start:
                break
        if start < last:  # of what is in one
            found.append(self._held[self._start + start : self._start + min(joined, end)])
        return found[0] if len(found) == 1 else np.concatenate(found[::-1])

    def cut(self, settled: int, config: LiveConfig) -> int:
        """See `cut`."""
        return len(self) if len(self) <= config.cap else cut(self.samples, settled, config)

    def append(self, samples: Samples) -> None:
        """Samples behind all others; nobody may change them any more."""
        if len(samples):
            self._pieces.append(samples)
            self._pending += len(samples)

    def _join(self) -> None:
        end = self._end + self._pending
        if end > len(self._held):
            kept = self._held[self._start : self._end]
            size = len(kept) + self._pending
            larger = np.empty(max(2 * size, LEAST), np.float32)
            larger[: len(kept)] = kept
            self._held, self._start, self._end, end = larger, 0, len(kept), size
        np.concatenate(self._pieces, out=self._held[self._end : end])
        self._end, self._pending = end, 0
        self._pieces = []

    def drop(self, count: int) -> None:
        """Forget the first count samples."""
        assert 0 <= count <= len(self)
        if not count:
            return
        joined = self._end - self._start - self._lead
        if count >= joined:
            self._drop_pieces(count - joined)
            count = joined
        self._start += count
        if self._start >= (size := self._end - self._start):
            self._held[:size] = self._held[self._start : self._end]
            self._start, self._end = 0, size
        self._held[self._start : self._start + self._lead] = 0.0

    def _drop_pieces(self, count: int) -> None:
        self._pending -= count
        whole = 0
        while whole < len(self._pieces) and len(self._pieces[whole]) <= count:
            count -= len(self._pieces[whole])
            whole += 1
        del self._pieces[:whole]
        if count:
            self._pieces[0] = self._pieces[0][count:]


class _Led:
    """See `AudioBuffer.led`."""

    __slots__ = ("_buffer", "_count")

    def __init__(self, buffer: AudioBuffer, count: int) -> None:
        self._buffer, self._count = buffer, count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, where: slice) -> Samples:
        start, end, step = where.indices(self._count)
        assert step == 1, where
        if start == 0 and end == self._count:
            return self._buffer.led_samples[:end]
        return self._buffer.part(start, end)


def quietest(samples: Samples) -> int:
    """Where a cut hits no word: offset of the middle of the quietest tenth of a second (or
    the end, if it is shorter)."""
    width = SAMPLE_RATE // 10
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
