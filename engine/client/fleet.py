"""All engines of one gateway: they start and end together, and say how they are."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence

from lookhear.engine.client.errors import EngineStartError, EngineUnavailable, ModelGone
from lookhear.engine.client.pool import Pool
from lookhear.engine.client.replica import Replica
from lookhear.engine.client.state import EngineState
from lookhear.engine.client.supervisor import keep_alive
from lookhear.engine.config import EngineConfig
from lookhear.engine.messages import (
    EncodeMedium,
    EncodingFailed,
    EngineFailed,
    Event,
    LiveLoad,
    MediumEncoded,
    ModelCard,
    Pong,
    Ready,
    RequestDone,
    Shutdown,
    Starting,
)

log = logging.getLogger(__name__)

ProgressHandler = Callable[[str, Starting], None]  # told the engine's label with each
RequestHandler = Callable[[str, RequestDone], None]  # told the model's name with each


class Fleet:
    """on_event: told what an engine says, but for its life. on_death: told of an engine that ended
    unexpectedly, and why. on_change: told when an engine of a model may be asked again.
    on_retiring: told again and again of an engine that is to end, which then loses its sessions;
    returns whether it has lost all. on_request: told of each request that was computed."""

    def __init__(
        self,
        configs: Sequence[EngineConfig],
        make: Callable[[EngineConfig, Callable[[Replica, Event], None]], Replica],
        on_event: Callable[[Pool, Replica, Event], None],
        on_death: Callable[[Pool, Replica, EngineFailed], None],
        on_change: Callable[[Pool], None],
        on_retiring: Callable[[Pool, Replica], bool],
    ) -> None:
        names = [config.name for config in configs]
        if len(set(names)) != len(names):
            raise ValueError(f"models need different names, got {', '.join(names)}")
        self._hand_on, self._on_death, self._on_change = on_event, on_death, on_change
        self._on_retiring = on_retiring
        self._on_progress: ProgressHandler | None = None
        self.on_request: RequestHandler = lambda model, done: None
        self._closing: dict[Replica, asyncio.Event] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.pools = {c.name: Pool(c, lambda own: make(own, self._on_event)) for c in configs}

    @property
    def default(self) -> str:
        """The first model's name."""
        return next(iter(self.pools))

    def pool(self, model: str) -> Pool:
        """Raises ModelGone if there is no such model, nor one with such an adapter."""
        pool = self._find(model)
        if pool is None:
            raise ModelGone(f"no engine serves {model!r}")
        return pool

    def base(self, model: str) -> str:
        """The name without that of an adapter."""
        pool = self._find(model)
        return model if pool is None else pool.name

    def _find(self, model: str) -> Pool | None:
        if (pool := self.pools.get(model)) is not None:
            return pool
        base, _, adapter = model.rpartition(":")
        pool = self.pools.get(base)
        return pool if pool is not None and adapter in pool.adapters else None

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
        first, *others = pool.engines
        await self._first_start(first)
        pool.follow_first()
        await asyncio.gather(*map(self._first_start, others))

    async def _first_start(self, replica: Replica) -> None:
        await self._keep(replica).wait()
        if replica.ready is None:
            reason = f"its process ended with status {replica.status} before it was ready"
            if replica.failure is not None:
                reason = replica.failure.message.removeprefix(f"{replica.config.model}: ")
            raise EngineStartError(f"cannot load {replica.config.name}: {reason}")

    def _keep(self, replica: Replica) -> asyncio.Event:
        """Keeps it alive from now on. Returns what is set when its first start has ended."""
        started, closing = asyncio.Event(), asyncio.Event()
        self._closing[replica] = closing
        keeping = keep_alive(replica, closing, started, self._was_ready, self._ended)
        task = asyncio.create_task(keeping)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return started

    def _was_ready(self, replica: Replica) -> bool:
        pool = self._pool_of(replica)
        return pool is not None and pool.card is not None

    async def close(self) -> None:
        """End all engines and wait for them."""
        for pool in self.pools.values():
            pool.encoders.close()
        for replica in list(self._closing):
            self._end(replica)
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _end(self, replica: Replica) -> None:
        """For good."""
        self._closing.pop(replica).set()
        if replica.ready is not None:
            with contextlib.suppress(EngineUnavailable):  # it ends with its socket too
                replica.send(Shutdown())
            replica.hang_up()
        else:
            replica.kill()  # it may be loading for minutes

    # --- more and fewer --------------------------------------------------------------------------

    def _scale(self, pool: Pool) -> None:
        """After each answer to a heartbeat."""
        if pool.scaling is None or pool.card is None:
            return
        up = sum(replica.ready is not None for replica in pool.staying)
        starting = len(pool.staying) - up
        now = asyncio.get_running_loop().time()
        change = pool.scaling.change(now, pool.load, up, starting)
        if change > 0 and pool.retiring:
            log.info("engine of %s is needed again", pool.retiring.popitem()[0].label)
        elif change > 0:
            replica = pool.add()
            log.info("engine of %s is started: there are few places", replica.label)
            self._keep(replica)
        elif change < 0:
            log.info("engine of %s is to end: the others have room", pool.retire(now).label)
        for replica in list(pool.retiring):
            if self._on_retiring(pool, replica):
                log.info("engine of %s ends", replica.label)
                pool.remove(replica)
                self._end(replica)

    # --- how they are ----------------------------------------------------------------------------

    def is_ready(self, model: str) -> bool:
        """Whether an engine of this model is up right now, and answers."""
        pool = self._find(model)
        return pool is not None and pool.is_up

    async def until_ready(self, model: str) -> bool:
        """As `is_ready`; one whose engine is started again is waited for, see `Pool.answering`."""
        pool = self._find(model)
        return pool is not None and await pool.answering() is not None

    @property
    def models(self) -> list[ModelCard]:
        """The served models, the default first, then those with adapters; also while an engine is
        being restarted.

        Empty until all of them have been ready once.
        """
        cards = [pool.card for pool in self.pools.values() if pool.card is not None]
        if len(cards) < len(self.pools):
            return []
        return [*cards, *(card for pool in self.pools.values() for card in pool.cards)]

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
        pool = self._find(model)
        return None if pool is None else pool.load

    async def counted_out(self, model: str) -> None:
        """See `Pool`."""
        if (pool := self._find(model)) is not None:
            await pool.counted_out()

    @property
    def pids(self) -> dict[str, int | None]:
        """Process id by the engine's label."""
        return {r.label: r.pid for pool in self.pools.values() for r in pool.engines}

    # --- events ----------------------------------------------------------------------------------

    def _pool_of(self, replica: Replica) -> Pool | None:
        """None: it was told to end."""
        return next((pool for pool in self.pools.values() if replica in pool.engines), None)

    def _on_event(self, replica: Replica, event: Event) -> None:
        pool = self._pool_of(replica)
        if pool is None:
            return
        match event:
            case Starting():
                if self._on_progress is not None:
                    self._on_progress(replica.label, event)
            case Ready(models) if replica in pool.encoders.replicas:
                pool.encoders.came_up(models[0])
            case Ready(models):
                # One that chose its model is called as that from now on.
                self.pools = {pool.name: pool for pool in self.pools.values()}
                pool.came_up(replica, models[0])
                self._on_change(pool)
            case Pong():
                pool.said(replica, event)
                pool.encoders.look()
                self._on_change(pool)
                self._scale(pool)
            case EncodeMedium():
                pool.encoders.ask(replica, event)
            case MediumEncoded() | EncodingFailed():
                pool.encoders.take(event)
            case RequestDone() if replica in pool.encoders.replicas:
                pass  # a part of a request, which will be told of
            case RequestDone():
                self.on_request(pool.name, event)
            case _:
                self._hand_on(pool, replica, event)

    def _ended(self, replica: Replica, status: int) -> None:
        pool = self._pool_of(replica)
        if pool is None:
            return
        log.error("engine of %s ended with status %d; starting it again", replica.label, status)
        pool.died(replica)
        if replica in pool.encoders.replicas:
            pool.encoders.lose(replica)
            return
        pool.encoders.forget(replica)
        ended = f"the engine of {pool.name} ended unexpectedly"
        self._on_death(pool, replica, replica.failure or EngineFailed("engine_died", ended))
