"""What is on its way to an engine process.

A reader that keeps up can hold a single write of a large picture in the system's call until all of
it is copied, which is tenths of a second of the event loop. So large payloads go piece by piece,
and what the loop has to do meanwhile comes in between.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Sequence

JOINED = 1 << 16  # bytes of a frame whose buffers are joined: one write costs less than two
PIECE = 1 << 18  # bytes written in a turn of the event loop: some 0.1 ms

Buffer = bytes | memoryview


class Outgoing:
    """Whole frames in, in order, into one stream. Never waits."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self._waiting: deque[Buffer] = deque()
        self._bytes = 0  # of them
        self._pump: asyncio.Task[None] | None = None

    @property
    def backlog(self) -> int:
        """Bytes that the system has not taken yet."""
        return self._bytes + self._writer.transport.get_write_buffer_size()

    @property
    def is_closing(self) -> bool:
        """Whether what is sent now goes nowhere. A transport knows before its reader does that
        nobody is at the other end."""
        return self._writer.transport.is_closing()

    def send(self, frame: Sequence[Buffer]) -> None:
        """frame: its buffers. A header with long texts may be as large as a payload."""
        if self._pump is None and sum(map(len, frame)) <= JOINED:
            # Joined here: since Python 3.12 an empty buffer in `writelines` is sent for ever.
            self._writer.write(b"".join(frame))
            return
        self._waiting.extend(frame)
        self._bytes += sum(len(buffer) for buffer in frame)
        if self._pump is None:
            self._pump = asyncio.create_task(self._write())

    async def drain(self) -> None:
        """Until most of what was sent is with the engine, or it is gone."""
        if self._pump is not None:
            await asyncio.wait([self._pump])
        with contextlib.suppress(ConnectionError):
            await self._writer.drain()

    def close(self) -> None:
        """What the system has not taken is dropped."""
        if self._pump is not None:
            self._pump.cancel()
        self._writer.close()

    async def _write(self) -> None:
        try:
            while self._waiting:
                buffer = self._waiting.popleft()
                for start in range(0, len(buffer), PIECE):
                    if self.is_closing:
                        return
                    piece = buffer[start : start + PIECE]
                    self._bytes -= len(piece)
                    self._writer.write(piece)
                    await self._writer.drain()
                    await asyncio.sleep(0)  # a drain that need not wait does not let others run
        except ConnectionError:
            pass  # whoever reads learns it, too
        finally:
            self._waiting.clear()
            self._bytes, self._pump = 0, None
