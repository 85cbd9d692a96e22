"""Requests for vectors and scores on their way through engines: each is asked of one, and once more
of another if that one dies."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from lookhear.engine.client.errors import EngineUnavailable, InputRefused
from lookhear.engine.client.pool import Pool
from lookhear.engine.client.replica import Replica
from lookhear.engine.messages import (
    CloseSession,
    HoldEmbeddings,
    HoldPicture,
    Pooled,
    PoolingFailed,
    StartPooling,
)

PoolingEvent = Pooled | PoolingFailed


@dataclass(slots=True)
class _Job:
    """One request, and what an engine has said of it. replica: that has it."""

    replica: Replica
    future: asyncio.Future[list[Pooled]]
    wanted: int
    found: dict[int, Pooled] = field(default_factory=dict)


class PoolingRequests:
    """Those under way. Every method belongs to one event loop."""

    def __init__(self) -> None:
        self._jobs: dict[str, _Job] = {}  # by session

    async def ask(
        self, pool: Pool, message: StartPooling, held: Sequence[HoldPicture | HoldEmbeddings]
    ) -> list[Pooled]:
        """In the order of the documents. Raises InputRefused, EngineUnavailable. Cancelling the
        call cancels the work."""
        return await pool.asked(lambda replica: self._ask(pool, replica, message, held))

    async def _ask(
        self,
        pool: Pool,
        replica: Replica,
        message: StartPooling,
        held: Sequence[HoldPicture | HoldEmbeddings],
    ) -> list[Pooled]:
        future: asyncio.Future[list[Pooled]] = asyncio.get_running_loop().create_future()
        self._jobs[message.session] = _Job(replica, future, len(message.documents))
        pool.seated(replica)
        try:
            for item in held:
                replica.send(item)
            replica.send(message)
            return await future
        finally:
            del self._jobs[message.session]
            pool.left(replica)
            with contextlib.suppress(EngineUnavailable):  # it has forgotten the session anyway
                replica.send(CloseSession(message.session))

    def take(self, event: PoolingEvent) -> None:
        """About a request; one that nobody waits for: ignored."""
        job = self._jobs.get(event.session)
        if job is None or job.future.done():
            return
        if isinstance(event, PoolingFailed):
            refusal = InputRefused(event.code, event.message, event.side, event.index)
            job.future.set_exception(refusal)
            return
        job.found[event.index] = event
        if len(job.found) == job.wanted:
            job.future.set_result([job.found[index] for index in range(job.wanted)])

    def lose(self, replica: Replica, message: str) -> None:
        """It died, and what it had with it. message: why."""
        for job in self._jobs.values():
            if job.replica is replica and not job.future.done():
                job.future.set_exception(EngineUnavailable(message))

    def has(self, replica: Replica) -> bool:
        """Whether it has any."""
        return any(job.replica is replica for job in self._jobs.values())
