"""What a gateway that is going away waits for: the HTTP requests under way."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


class UnderWay:
    """Counts them."""

    def __init__(self) -> None:
        self.count = 0
        self._none = asyncio.Event()
        self._none.set()

    @contextmanager
    def one(self) -> Iterator[None]:
        """One more, while the context lasts."""
        self.count += 1
        self._none.clear()
        try:
            yield
        finally:
            self.count -= 1
            if not self.count:
                self._none.set()

    async def over(self) -> None:
        """Returns when there is none."""
        await self._none.wait()
