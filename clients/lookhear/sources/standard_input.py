"""What is piped into a command, as it comes, in a way that can be stopped."""

from __future__ import annotations

import asyncio
import contextlib
import os
import selectors
import stat
from collections.abc import AsyncIterator
from io import FileIO

_BLOCK = 1 << 16


async def read_blocks(descriptor: int, stop: asyncio.Event) -> AsyncIterator[bytes]:
    """Blocks of bytes until the end, or until `stop` is set. The descriptor is left open."""
    reader = asyncio.StreamReader(limit=2 * _BLOCK)
    loop = asyncio.get_running_loop()
    pipe = os.fdopen(os.dup(descriptor), "rb", buffering=0)
    if not _can_be_awaited(pipe):
        with pipe:
            while not stop.is_set() and (block := await asyncio.to_thread(pipe.read, _BLOCK)):
                yield block
        return
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
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


def _can_be_awaited(pipe: FileIO) -> bool:
    """Not a regular file, nor /dev/null and its like: those never block, and cannot be waited for.
    asyncio takes the latter all the same, and then nothing ever comes."""
    mode = os.fstat(pipe.fileno()).st_mode
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or stat.S_ISCHR(mode)):
        return False
    with selectors.DefaultSelector() as selector:
        try:
            selector.register(pipe, selectors.EVENT_READ)
        except OSError:
            return False
    return True
