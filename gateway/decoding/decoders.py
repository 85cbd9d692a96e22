"""Decodes strangers' files in processes that can be killed, so that nothing in them can hold up
live speech, or end anything but the request that brought it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import AsyncExitStack
from typing import TypeVar

from lookhear.gateway.decoding.crew import JOBS, Crew, Decoder
from lookhear.gateway.decoding.decoder import Limits
from lookhear.gateway.decoding.jobs import Encoded, Options
from lookhear.gateway.decoding.own import OwnDecoder
from lookhear.gateway.decoding.parcel import Array, Header, pack
from lookhear.gateway.decoding.verdict import Verdict
from lookhear.gateway.slots import Claim, Slots
from lookhear.gateway.telemetry.metrics import Metrics

T = TypeVar("T")

Read = Callable[[Header, list[Array]], T]

SHORT = ("image", "embeddings")
IDLE_SECONDS = 30.0  # after which a decoder without work is let go
KEPT_BYTES = 64 * 1024 * 1024  # of an answer: after a larger one a decoder keeps too much memory
INLINE = 256 * 1024  # bytes that are handed over on the event loop: more would hold it up


class Decoders:
    """At most `workers` jobs at once, shared between clients and requests as `SlotPolicy` says.

    Every method belongs to one event loop. threads: for what would hold that up. jobs: the module
    of what decoders can do.
    """

    def __init__(
        self,
        workers: int,
        limits: Limits,
        metrics: Metrics,
        threads: Executor,
        jobs: str = JOBS,
    ) -> None:
        # A picture takes milliseconds, a recording or a video up to minutes. So one decoder is
        # always left for pictures, of the same client too, and of the others one for the next.
        most = min(workers, max(2, workers - 1))
        self._slots = Slots(workers, most, most)
        self._long = Slots(max(1, workers - 1), max(1, workers - 2), max(1, workers - 2))
        self._limits = limits
        self._metrics = metrics
        self._threads = threads
        self._crew = Crew(limits, jobs)
        self._idle: dict[Decoder, asyncio.TimerHandle] = {}

    @property
    def pids(self) -> list[int]:
        """The processes of the decoders that are known to live."""
        return [decoder.pid for decoder in self._crew.decoders if decoder.pid]

    @property
    def waiting(self) -> int:
        """Count the jobs that wait for a decoder."""
        return self._slots.waiting + self._long.waiting

    async def run(
        self, job: str, encoded: Encoded, options: Options, claim: Claim, read: Read[T]
    ) -> T:
        """What `read` makes of the answer. Whoever is cancelled takes the job with them.

        Raises MediaError: the file is not what it should be, or decoding it takes too much; and
        ApiError (503): a decoder was lost, and it may be no fault of the file.
        """
        asked = asyncio.get_running_loop().time()
        verdict = Verdict(self._limits)
        try:
            async with AsyncExitStack() as held:
                if job not in SHORT:
                    await held.enter_async_context(self._long.held(claim))
                await held.enter_async_context(self._slots.held(claim))
                waited = asyncio.get_running_loop().time() - asked
                self._metrics.decoding_wait.observe(waited)
                with verdict.judging():
                    header, arrays = await self._do(job, encoded, options)
                    return read(verdict.done(header), arrays)
        finally:
            self._metrics.decoding_jobs.labels(job, verdict.outcome).inc()

    def own(self, job: str) -> OwnDecoder:
        """One more, for a stream of pieces; it has no part in the `workers`."""
        return OwnDecoder(job, self._crew, self._metrics)

    async def close(self) -> None:
        """Ends the decoders; jobs under way fail."""
        for timer in self._idle.values():
            timer.cancel()
        self._idle.clear()
        await self._crew.close()

    async def _do(self, job: str, encoded: Encoded, options: Options) -> tuple[Header, list[Array]]:
        header = {"job": job, "media_type": encoded.media_type, "options": dict(options)}
        asked = await self._packed(header, encoded.data)
        try:
            decoder = await self._decoder()
            told, arrays = await self._crew.ask(decoder, asked)
        finally:
            os.close(asked)
        if "limit" in told or "bug" in told:
            self._crew.kill(decoder)  # who knows what it holds now
        elif sum(array.nbytes for array in arrays) > KEPT_BYTES:
            decoder.hang_up()
        else:
            self._rest(decoder)
        return told, arrays

    async def _packed(self, header: Header, data: bytes) -> int:
        if len(data) <= INLINE:
            return pack(header, [data])
        loop = asyncio.get_running_loop()
        packing = loop.run_in_executor(self._threads, pack, header, [data])
        try:
            return await asyncio.shield(packing)
        except asyncio.CancelledError:
            packing.add_done_callback(_close)
            raise

    async def _decoder(self) -> Decoder:
        while self._idle:
            decoder, timer = self._idle.popitem()
            timer.cancel()
            if not decoder.ended.done():
                return decoder
        return await self._crew.hire()

    def _rest(self, decoder: Decoder) -> None:
        loop = asyncio.get_running_loop()
        self._idle[decoder] = loop.call_later(IDLE_SECONDS, self._let_go, decoder)

    def _let_go(self, decoder: Decoder) -> None:
        del self._idle[decoder]
        decoder.hang_up()


def _close(packing: asyncio.Future[int]) -> None:
    if not packing.cancelled() and packing.exception() is None:
        os.close(packing.result())
