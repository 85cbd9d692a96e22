"""Audio while it is spoken: taken from its source once, and kept to be sent again."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator

from lookhear.sources.pcm import RATE, SAMPLE_BYTES

_BLOCK_BYTES = RATE * SAMPLE_BYTES  # a second


class RepeatableAudio:
    """Audio that can be read again from its start.

    pieces: 16-bit mono PCM at 24 kHz. keep_seconds: what is longer cannot be read again.
    """

    def __init__(self, pieces: AsyncIterator[bytes], keep_seconds: float = 600.0) -> None:
        self._pieces = pieces
        self._limit = int(keep_seconds * RATE) * SAMPLE_BYTES
        self._kept = bytearray()
        self.repeatable = True

    async def from_start(self) -> AsyncGenerator[bytes, None]:
        """All of it in blocks of a second at most: first what was read before, then the rest.

        One reader at a time; one that is left does not take anything away from the next.
        """
        assert self.repeatable, "its beginning is forgotten"
        for first in range(0, len(self._kept), _BLOCK_BYTES):
            yield bytes(self._kept[first : first + _BLOCK_BYTES])
        async for piece in self._pieces:
            if self.repeatable and len(self._kept) + len(piece) > self._limit:
                self.repeatable = False
                self._kept.clear()
            if self.repeatable:
                self._kept += piece
            for first in range(0, len(piece), _BLOCK_BYTES):
                yield piece[first : first + _BLOCK_BYTES]
