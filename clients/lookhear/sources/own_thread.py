"""What blocks, without keeping a program from its end."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")

_NAME = "lookhear-blocking"


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

    threading.Thread(target=run, name=_NAME, daemon=True).start()
    return await asyncio.wrap_future(outcome)


@atexit.register
def _leave_stdin() -> None:
    """Python closes it at its end, and aborts where a thread that was left still reads there."""
    detach = getattr(sys.stdin, "detach", None)  # there may be none, or another one
    if detach is not None and any(thread.name == _NAME for thread in threading.enumerate()):
        with contextlib.suppress(ValueError, OSError):
            detach()
