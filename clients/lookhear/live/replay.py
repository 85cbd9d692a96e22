"""The source's audio that the server may still need, bounded: what makes a reconnect lossless.

Positions are samples from the first sample of the source; samples are 16-bit, mono, 24 kHz.
"""

from __future__ import annotations

from lookhear.sources.pcm import SAMPLE_BYTES


class ReplayBuffer:
    """The window [start, end) of the source: `append` grows it, `release` shrinks it in front.

    When it would outgrow `limit` samples the oldest are dropped: `start` then passes what somebody
    may still have needed, and the owner sees that by comparing positions.
    """

    def __init__(self, limit: int) -> None:
        assert limit > 0
        self.start = 0
        self._limit = limit
        self._pcm = bytearray()

    @property
    def end(self) -> int:
        """The position behind the last sample."""
        return self.start + len(self._pcm) // SAMPLE_BYTES

    def append(self, pcm: bytes) -> None:
        """Add whole samples behind the last one."""
        assert len(pcm) % SAMPLE_BYTES == 0, "half a sample"
        self._pcm += pcm
        self.release(self.end - self._limit)

    def read(self, position: int, count: int) -> bytes:
        """Up to `count` samples from `position` on; fewer where the window ends."""
        assert self.start <= position <= self.end, (self.start, position, self.end)
        first = (position - self.start) * SAMPLE_BYTES
        return bytes(self._pcm[first : first + count * SAMPLE_BYTES])

    def release(self, position: int) -> None:
        """Forget everything before `position`."""
        surplus = min(position, self.end) - self.start
        if surplus > 0:
            del self._pcm[: surplus * SAMPLE_BYTES]
            self.start += surplus

    def blank(self, start: int, end: int) -> None:
        """Turn [start, end) into silence: a finished turn that a replay of an older, unfinished one
        would otherwise say a second time."""
        start, end = max(start, self.start), min(end, self.end)
        if start < end:
            first = (start - self.start) * SAMPLE_BYTES
            last = (end - self.start) * SAMPLE_BYTES
            self._pcm[first:last] = bytes(last - first)
