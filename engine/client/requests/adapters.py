"""Adapters of the models of a gateway: each engine of a model has them all, and those that come
later, or again, are given them before anybody else's work."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Sequence

from lookhear.engine.client.errors import EngineRequestError, EngineUnavailable
from lookhear.engine.client.pool import AGAIN, Pool
from lookhear.engine.client.replica import Replica
from lookhear.engine.messages import AdapterFailed, AdapterLoaded, LoadAdapter, Ready, UnloadAdapter

log = logging.getLogger(__name__)

AdapterEvent = AdapterLoaded | AdapterFailed


class AdapterRequests:
    """Those under way. Every method belongs to one event loop."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[Replica, str], asyncio.Future[AdapterLoaded]] = {}
        self._lock = asyncio.Lock()  # one after another: all engines end up with the same ones
        self._repairs: set[asyncio.Task[None]] = set()

    async def load(self, pool: Pool, message: LoadAdapter, *, replaces: bool) -> AdapterLoaded:
        """By all engines of the model, or by none. replaces: also one of that name. Raises
        EngineRequestError, EngineUnavailable."""
        async with self._lock:
            before = pool.adapters.get(message.name)
            if before is not None and not replaces:  # asked here, where nobody loads it meanwhile
                text = f"expected another name, or load_inplace true, got {message.name!r}"
                raise EngineRequestError("duplicate_adapter", text)
            asked: dict[Replica, Ready | None] = {}  # and since which start it is up
            answers: list[AdapterLoaded | BaseException] = []
            # Those, too, that come up meanwhile: they are given what the model had before.
            while others := [
                replica
                for replica in pool.replicas
                if replica.is_running and asked.get(replica) is not replica.ready
            ]:
                asked |= {replica: replica.ready for replica in others}
                answers += await self._all(others, message)
            if not asked:
                raise EngineUnavailable(f"the engine of {pool.name} is not running")
            failures = [answer for answer in answers if isinstance(answer, Exception)]
            if failures:
                await self._undo([*asked], message, before)
                raise failures[0]
            pool.adapters[message.name] = message.folder
            loaded = answers[0]
            assert isinstance(loaded, AdapterLoaded)
            return loaded

    async def unload(self, pool: Pool, message: UnloadAdapter) -> None:
        """By all engines of the model. Raises as `load`."""
        async with self._lock:
            if pool.adapters.pop(message.name, None) is None:
                text = f"expected an adapter that is loaded, got {message.name!r}"
                raise EngineRequestError("invalid_adapter", text)
            await self._all([r for r in pool.replicas if r.is_running], message)

    async def _undo(
        self, asked: Sequence[Replica], message: LoadAdapter, before: str | None
    ) -> None:
        """One could not: those that could get what they had again."""
        running = [replica for replica in asked if replica.is_running]
        if before is None:
            back = UnloadAdapter(f"{message.request}/back", message.model, message.name)
            await self._all(running, back)
        else:
            again = LoadAdapter(f"{message.request}/back", message.model, message.name, before)
            await self._all(running, again)

    async def _all(
        self, replicas: Sequence[Replica], message: LoadAdapter | UnloadAdapter
    ) -> list[AdapterLoaded | BaseException]:
        asked = [self._ask(replica, message) for replica in replicas]
        return await asyncio.gather(*asked, return_exceptions=True)

    async def _ask(self, replica: Replica, message: LoadAdapter | UnloadAdapter) -> AdapterLoaded:
        future: asyncio.Future[AdapterLoaded] = asyncio.get_running_loop().create_future()
        self._waiting[replica, message.request] = future
        try:
            replica.send(message)
            return await future
        finally:
            del self._waiting[replica, message.request]

    def take(self, pool: Pool, replica: Replica, event: AdapterEvent) -> None:
        """One that nobody waits for: ignored, but for what an engine that came up cannot load."""
        future = self._waiting.get((replica, event.request))
        if future is None:
            if isinstance(event, AdapterFailed) and event.request.startswith(AGAIN):
                name = event.request.removeprefix(AGAIN)
                task = asyncio.create_task(self._repair(pool, replica, name))
                self._repairs.add(task)
                task.add_done_callback(self._repairs.discard)
        elif future.done():
            return
        elif isinstance(event, AdapterLoaded):
            future.set_result(event)
        else:
            future.set_exception(EngineRequestError(event.code, event.message))

    async def _repair(self, pool: Pool, replica: Replica, name: str) -> None:
        """By all engines or by none: it is asked once more, for it may have been replaced or mended
        since, and if it cannot either, the model has no such adapter any more."""
        async with self._lock:
            if (folder := pool.adapters.get(name)) is None:
                return
            with contextlib.suppress(EngineUnavailable):  # it is given all when it is back
                try:
                    await self._ask(replica, LoadAdapter(f"{AGAIN}{name}", pool.name, name, folder))
                except EngineRequestError as error:
                    which = f"adapter {name} of {pool.name}"
                    log.error("%s is unloaded, %s cannot load it: %s", which, replica.label, error)
                    del pool.adapters[name]
                    gone = UnloadAdapter(f"{AGAIN}{name}", pool.name, name)
                    await self._all([r for r in pool.replicas if r.is_running], gone)

    def close(self) -> None:
        """The engines end."""
        for task in self._repairs:
            task.cancel()

    def has(self, replica: Replica) -> bool:
        """Whether it is asked for any."""
        return any(whose is replica for whose, _ in self._waiting)

    def lose(self, replica: Replica, message: str) -> None:
        """It died, and comes back with those that the model has. message: why."""
        for (whose, _), future in self._waiting.items():
            if whose is replica and not future.done():
                future.set_exception(EngineUnavailable(message))
