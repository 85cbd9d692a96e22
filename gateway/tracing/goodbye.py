"""The last words to collectors, which may never take them."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable

LAST_SECONDS = 2.0  # for the last numbers and spans together, when the server ends


async def apart(call: Callable[[], object]) -> None:
    """Until it has returned; whoever does not wait for it is not held up by it. Its thread is its
    own: asyncio's are waited for when the loop is closed, and again when the process ends."""
    loop = asyncio.get_running_loop()
    returned = asyncio.Event()

    def run() -> None:
        try:
            call()
        finally:
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
                loop.call_soon_threadsafe(returned.set)

    threading.Thread(target=run, name="collector", daemon=True).start()
    await returned.wait()
