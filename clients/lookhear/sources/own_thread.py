"""What blocks, without keeping a program from its end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


async def in_own_thread(call: Callable[[], T]) -> T:
    """The result of a call that may block for ever. Cancelling leaves it to itself: Python waits at
    its end for the workers of `asyncio.to_thread`, and for this thread it does not."""
    outcome: Future[T] = Future()
    outcome.set_running_or_notify_cancel()  # from now on it can only be left

    def run() -> None:
        try:
            result = call()
        except BaseException as error:
            outcome.set_exception(error)
        else:
            outcome.set_result(result)

    threading.Thread(target=run, name="lookhear-blocking", daemon=True).start()
    return await asyncio.wrap_future(outcome)
