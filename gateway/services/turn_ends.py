"""Who is asked, at a pause, whether the turn is over by its sound: for all sessions, on one thread.

A session's later audio waits for the answer, so that what is decided does not depend on how busy
the machine is, unless it is too busy: who finds the queue full gets no answer, and silence decides.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from lookhear.gateway.telemetry.metrics import Metrics
from lookhear.media.voice.smart_turn import TurnModel

MOST_WAITING = 8  # questions; on one core a third of a second
MOST_AT_ONCE = 4  # in one batch: the first of it waits for the last

Samples = NDArray[np.float32]
log = logging.getLogger(__name__)


class TurnEnds:
    """Every method belongs to one event loop."""

    def __init__(self, metrics: Metrics) -> None:
        self._model: TurnModel | None = None
        self._metrics = metrics
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="turn-ends")
        self._waiting: list[tuple[Samples, asyncio.Future[float | None]]] = []
        self._busy = False

    @property
    def can_tell(self) -> bool:
        """Whether there is a model to ask. Sessions that begin earlier end turns by silence."""
        return self._model is not None

    async def load(self, model: Callable[[], TurnModel | None]) -> None:
        """model: makes it, in seconds; None: there is none."""
        loop = asyncio.get_running_loop()
        self._model = await loop.run_in_executor(self._thread, model)

    def close(self) -> None:
        """What waits is given up."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def decided(self, rule: str) -> None:
        """A turn of semantic VAD ended by `silence`, by `words` or by `sound`."""
        self._metrics.turn_ends.labels(rule).inc()

    async def ask(self, sound: Samples) -> float | None:
        """sound: [n], of a turn up to now -> how probably it is over; None: nobody can tell now."""
        if self._model is None or len(self._waiting) >= MOST_WAITING:
            self._metrics.turn_questions.labels("refused").inc()
            return None
        future: asyncio.Future[float | None] = asyncio.get_running_loop().create_future()
        self._waiting.append((sound, future))
        if not self._busy:
            self._begin(self._model)
        return await future

    def _begin(self, model: TurnModel) -> None:
        self._busy = True
        batch, self._waiting = self._waiting[:MOST_AT_ONCE], self._waiting[MOST_AT_ONCE:]
        loop, futures = asyncio.get_running_loop(), [future for _, future in batch]
        began = loop.time()
        work = loop.run_in_executor(self._thread, model.judge, [sound for sound, _ in batch])

        def end(done: asyncio.Future[list[float]]) -> None:
            self._busy = False
            if self._waiting and not done.cancelled():
                self._begin(model)
            self._answer(done, futures, loop.time() - began)

        work.add_done_callback(end)

    def _answer(
        self,
        done: asyncio.Future[list[float]],
        futures: Sequence[asyncio.Future[float | None]],
        seconds: float,
    ) -> None:
        if done.cancelled():  # the gateway stops
            for future in futures:
                future.cancel()
            return
        error = done.exception()
        if error is not None:  # no reason to lose a session: it ends its turns by silence
            log.error("the turn model failed", exc_info=error)
        found = [None] * len(futures) if error is not None else done.result()
        outcome = "answered" if error is None else "failed"
        self._metrics.turn_questions.labels(outcome).inc(len(futures))
        self._metrics.turn_question.observe(seconds)
        for future, over in zip(futures, found, strict=True):
            if not future.done():  # its session may have ended meanwhile
                future.set_result(over)
