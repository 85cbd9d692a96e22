"""Work that stops when the client of an HTTP request goes away."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.requests import Request

T = TypeVar("T")


class Gone(Exception):
    """The client hung up; the work was cancelled."""


async def until_gone(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`. Raises Gone if the client disconnects first. The body must have been
    read: the next message of the request is then its end."""
    task = asyncio.create_task(work)
    watch = asyncio.create_task(_hung_up(request))
    try:
        await asyncio.wait({task, watch}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise Gone
        return task.result()
    finally:
        for each in (task, watch):
            each.cancel()
        await asyncio.gather(task, watch, return_exceptions=True)


async def _hung_up(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
