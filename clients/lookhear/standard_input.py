"""What is piped into a command, as it comes, in a way that can be stopped."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator

_BLOCK = 1 << 16


async def read_blocks(descriptor: int, stop: asyncio.Event) -> AsyncIterator[bytes]:
    """Blocks of bytes until the end, or until `stop` is set. The descriptor is left open."""
    reader = asyncio.StreamReader(limit=2 * _BLOCK)
    loop = asyncio.get_running_loop()
    pipe = os.fdopen(os.dup(descriptor), "rb", buffering=0)
    try:
        transport, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), pipe
        )
    except (ValueError, OSError):
        # A regular file: reading it does not block, and asyncio cannot wait for it.
        with pipe:
            while not stop.is_set() and (block := await asyncio.to_thread(pipe.read, _BLOCK)):
                yield block
        return
    stopped = asyncio.create_task(stop.wait())
    try:
        while True:
            reading = asyncio.create_task(reader.read(_BLOCK))
            await asyncio.wait({reading, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if not reading.done():
                reading.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await reading
                return
            if not (block := reading.result()):
                return
            yield block
    finally:
        stopped.cancel()
        transport.close()
