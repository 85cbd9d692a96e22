"""All engines of one gateway: they start and end together, and say how they are."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence

from lookhear.engine.client.errors import EngineStartError, EngineUnavailable
from lookhear.engine.client.pool import Pool
from lookhear.engine.client.replica import Replica
from lookhear.engine.client.state import EngineState
from lookhear.engine.client.supervisor import keep_alive
from lookhear.engine.config import EngineConfig
from lookhear.engine.messages import (
    EngineFailed,
    Event,
    LiveLoad,
    ModelCard,
    Pong,
    Ready,
    Shutdown,
    Starting,
)

log = logging.getLogger(__name__)

ProgressHandler = Callable[[str, Starting], None]  # told the engine's label with each


class Fleet:
    """on_event: told what an engine says, but for its life. on_death: told of an engine that ended
    unexpectedly, and why. on_change: told when an engine of a model may be asked again."""

    def __init__(
        self,
        configs: Sequence[EngineConfig],
        make: Callable[[EngineConfig, Callable[[Replica, Event], None]], Replica],
        on_event: Callable[[Pool, Replica, Event], None],
        on_death: Callable[[Pool, Replica, EngineFailed], None],
        on_change: Callable[[Pool], None],
    ) -> None:
        names = [config.name for config in configs]
        if len(set(names)) != len(names):
            raise ValueError(f"models need different names, got {', '.join(names)}")
        self._hand_on, self._on_death, self._on_change = on_event, on_death, on_change
        self._on_progress: ProgressHandler | None = None
        self._closing = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self.pools = {c.name: Pool(c, lambda own: make(own, self._on_event)) for c in configs}

    @property
    def default(self) -> str:
        """The first model's name."""
        return next(iter(self.pools))

    def pool(self, model: str) -> Pool:
        """Raises EngineUnavailable if there is no such model."""
        pool = self.pools.get(model)
        if pool is None:
            raise EngineUnavailable(f"no engine serves {model!r}")
        return pool

    # --- start and end ---------------------------------------------------------------------------

    async def load(self, on_progress: ProgressHandler | None = None) -> None:
        """Start the engines of all models at once, the first of each model before its others, and
        wait until every one is ready.

        Raises EngineStartError as soon as one cannot load its model; the others are ended then.
        """
        assert not self._tasks, "loaded already"
        self._on_progress = on_progress
        try:
            await asyncio.gather(*map(self._load_pool, self.pools.values()))
        except BaseException:
            await self.close()
            raise
        finally:
            self._on_progress = None  # a restart is told in the log

    async def _load_pool(self, pool: Pool) -> None:
        first, *others = pool.replicas
        await self._first_start(first)
        pool.follow_first()
        await asyncio.gather(*map(self._first_start, others))

    async def _first_start(self, replica: Replica) -> None:
        started = asyncio.Event()
        keeping = keep_alive(replica, self._closing, started, self._was_ready, self._ended)
        self._tasks.append(asyncio.create_task(keeping))
        await started.wait()
        if replica.ready is None:
            reason = f"its process ended with status {replica.status} before it was ready"
            if replica.failure is not None:
                reason = replica.failure.message.removeprefix(f"{replica.config.model}: ")
            raise EngineStartError(f"cannot load {replica.config.name}: {reason}")

    def _was_ready(self, replica: Replica) -> bool:
        return self._pool_of(replica).card is not None

    async def close(self) -> None:
        """End all engines and wait for them."""
        self._closing.set()
        for replica in [replica for pool in self.pools.values() for replica in pool.replicas]:
            if replica.ready is not None:
                with contextlib.suppress(EngineUnavailable):  # it ends with its socket too
                    replica.send(Shutdown())
                replica.hang_up()
            else:
                replica.kill()  # it may be loading for minutes
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # --- how they are ----------------------------------------------------------------------------

    @property
    def ready(self) -> bool:
        """Whether every model can be asked right now."""
        return all(pool.is_up for pool in self.pools.values())

    def is_ready(self, model: str) -> bool:
        """Whether an engine of this model is up right now, and answers."""
        pool = self.pools.get(model)
        return pool is not None and pool.is_up

    @property
    def models(self) -> list[ModelCard]:
        """The served models, the default first, also while an engine is being restarted.

        Empty until all of them have been ready once.
        """
        cards = [pool.card for pool in self.pools.values() if pool.card is not None]
        return cards if len(cards) == len(self.pools) else []

    @property
    def states(self) -> list[EngineState]:
        """How each engine is, in the order of the configs."""
        return [state for pool in self.pools.values() for state in pool.states]

    @property
    def stats(self) -> dict[str, Pong]:
        """What each engine last said of its work, by its label; at most a heartbeat old."""
        pools = self.pools.values()
        return {replica.label: pong for pool in pools for replica, pong in pool.stats.items()}

    def live_load(self, model: str) -> LiveLoad | None:
        """Who speaks to that model, and how many more may, as of now. None: it does not bound the
        lag, or has not answered yet."""
        pool = self.pools.get(model)
        return None if pool is None else pool.load

    @property
    def pids(self) -> dict[str, int | None]:
        """Process id by the engine's label."""
        return {r.label: r.pid for pool in self.pools.values() for r in pool.replicas}

    # --- events ----------------------------------------------------------------------------------

    def _pool_of(self, replica: Replica) -> Pool:
        return next(pool for pool in self.pools.values() if replica in pool.replicas)

    def _on_event(self, replica: Replica, event: Event) -> None:
        pool = self._pool_of(replica)
        match event:
            case Starting():
                if self._on_progress is not None:
                    self._on_progress(replica.label, event)
            case Ready(models):
                # One that chose its model is called as that from now on.
                self.pools = {pool.name: pool for pool in self.pools.values()}
                pool.came_up(replica, models[0])
                self._on_change(pool)
            case Pong():
                pool.said(replica, event)
                self._on_change(pool)
            case _:
                self._hand_on(pool, replica, event)

    def _ended(self, replica: Replica, status: int) -> None:
        pool = self._pool_of(replica)
        log.error("engine of %s ended with status %d; starting it again", replica.label, status)
        pool.died(replica)
        ended = f"the engine of {pool.name} ended unexpectedly"
        self._on_death(pool, replica, replica.failure or EngineFailed("engine_died", ended))
