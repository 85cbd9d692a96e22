"""The voice detector of all sessions: what waits is judged together, one batch at a time.

A batch costs a thread hop and some matrix products, whatever its size; while one is under way, and
until `GAP` after it began, the next gathers. So a lone session waits for nobody, and many share.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import Executor

import numpy as np
from numpy.typing import NDArray

from lookhear.media.voice.silero import SileroModel, SileroStream

GAP = 0.01  # seconds between the beginnings of two batches
MOST_WINDOWS = 64  # of one session in one batch: two seconds; the others wait no longer for it

Windows = NDArray[np.float32]
_Judged = list[NDArray[np.float32]]


class VadBatcher:
    """Every method belongs to one event loop. What waits is bounded by its callers: each session
    waits for its own `MOST_WINDOWS` at most before it brings more."""

    def __init__(self, model: SileroModel, threads: Executor) -> None:
        self._model = model
        self._threads = threads
        self._waiting: list[tuple[SileroStream, Windows, asyncio.Future[list[float]]]] = []
        self._busy = False
        self._began = 0.0

    async def judge(self, stream: SileroStream, windows: Windows) -> list[float]:
        """windows: [k, 576], the next of the stream -> k probabilities of speech."""
        if len(windows) <= MOST_WINDOWS:
            return await self._judge(stream, windows) if len(windows) else []
        found: list[float] = []
        for start in range(0, len(windows), MOST_WINDOWS):
            found += await self._judge(stream, windows[start : start + MOST_WINDOWS])
        return found

    def _judge(self, stream: SileroStream, windows: Windows) -> asyncio.Future[list[float]]:
        future: asyncio.Future[list[float]] = asyncio.get_running_loop().create_future()
        self._waiting.append((stream, windows, future))
        if not self._busy:
            self._begin(future.get_loop())
        return future

    def _begin(self, loop: asyncio.AbstractEventLoop) -> None:
        self._busy = True
        self._began = loop.time()
        batch, self._waiting = self._waiting, []
        streams, windows = [stream for stream, _, _ in batch], [rows for _, rows, _ in batch]
        work = loop.run_in_executor(self._threads, self._model.judge, streams, windows)
        work.add_done_callback(lambda done: self._end(done, [future for _, _, future in batch]))

    def _next(self, loop: asyncio.AbstractEventLoop) -> None:
        self._busy = False
        if self._waiting:
            self._begin(loop)

    def _end(
        self, done: asyncio.Future[_Judged], futures: Sequence[asyncio.Future[list[float]]]
    ) -> None:
        loop = done.get_loop()
        if loop.time() - self._began < GAP:
            loop.call_at(self._began + GAP, self._next, loop)
        else:
            self._next(loop)
        if done.cancelled():  # the gateway stops
            for future in futures:
                future.cancel()
        elif (error := done.exception()) is not None:
            for future in futures:
                if not future.done():
                    future.set_exception(error)
        else:
            for future, probabilities in zip(futures, done.result(), strict=True):
                if not future.done():  # its session may have ended meanwhile
                    future.set_result(probabilities.tolist())
