"""The engines of one model: which of them gets whom, and what they say of themselves together."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import TypeVar

from lookhear.engine.client.encoders import Encoders
from lookhear.engine.client.errors import EngineUnavailable
from lookhear.engine.client.places import Places
from lookhear.engine.client.replica import Replica
from lookhear.engine.client.scaling import Scaling
from lookhear.engine.client.state import Availability, EngineState
from lookhear.engine.config import EngineConfig
from lookhear.engine.messages import LiveLoad, LoadAdapter, ModelCard, Pong

T = TypeVar("T")

# A newcomer waits no longer for what an engine says of who has gone: it may be in a long step.
COUNT_SECONDS = 2.0
AGAIN = "again/"  # begins the request, ended by its name, of an adapter that the model has already


class Pool:
    """replicas: the first is loaded before the others, which load what it chose. encoders: beside
    them, where they are apart. scaling: how many there are to be, where that may change."""

    def __init__(self, config: EngineConfig, make: Callable[[EngineConfig], Replica]) -> None:
        """config: several devices, parted by commas, are dealt out in turn, to the engines of all
        workers. Each engine is told how many share its device."""
        self._config, self._make = config, make
        most = max(config.replicas, config.max_replicas)
        self.scaling = Scaling(config.replicas, most) if config.can_grow else None
        self.replicas: list[Replica] = []
        self.retiring: dict[Replica, float] = {}  # get nobody new, and end; since when
        self.encoders = Encoders(config.name, config.recover_seconds)
        for _ in range(config.replicas):
            self.add()
        for number in range(1, config.encoders + 1):
            self._add_encoder(number)
        self._own: ModelCard | None = None
        self.adapters: dict[str, str] = {}  # folders by name, of all engines
        self.recover_seconds = config.recover_seconds
        self.stats: dict[Replica, Pong] = {}
        self._places: dict[Replica, Places] = {}  # of engines that are up
        self._sessions: Counter[Replica] = Counter()
        self._changed = asyncio.Event()

    def add(self) -> Replica:
        """One more, to be started."""
        config = self._config
        devices = config.device.split(",")
        most = max(config.replicas, config.max_replicas)
        before = most * (config.worker - 1)  # engines of the workers before this one
        taken = {replica.number for replica in self.replicas}
        number = next(n for n in range(before + 1, before + most + 2) if n not in taken)
        replica = self._make(
            dataclasses.replace(
                config,
                model=self.replicas[0].config.model if self.replicas else config.model,
                device=devices[(number - 1) % len(devices)],
                replicas=self._share,
                max_replicas=0,
                encoders=0,
                role="language" if config.encoders else "",
            )
        )
        replica.number = number
        self.replicas.append(replica)
        return replica

    @property
    def _share(self) -> int:
        """How many engines are on a device, at most."""
        config = self._config
        most = max(config.replicas, config.max_replicas) + config.encoders
        return -(-most * config.workers // len(config.device.split(",")))

    def _add_encoder(self, number: int) -> None:
        """On the devices behind those of the replicas, in the same turn."""
        config = self._config
        devices = config.device.split(",")
        number += config.encoders * (config.worker - 1)
        behind = max(config.replicas, config.max_replicas) * config.workers + number - 1
        replica = self._make(
            dataclasses.replace(
                config,
                device=devices[behind % len(devices)],
                replicas=self._share,
                max_replicas=0,
                encoders=0,
                role="encoder",
            )
        )
        replica.number = number
        self.encoders.replicas.append(replica)

    @property
    def engines(self) -> list[Replica]:
        """All processes of the model, its encoders behind the others."""
        return [*self.replicas, *self.encoders.replicas]

    def retire(self, now: float) -> Replica:
        """One less: one that is not up, else that with the fewest sessions, else the youngest. The
        first one stays."""
        others = [r for r in self.replicas[1:] if r not in self.retiring]
        chosen = min(others, key=lambda r: (r.is_up, self._sessions[r], -r.number))
        self.retiring[chosen] = now
        return chosen

    def remove(self, replica: Replica) -> None:
        """It has ended for good."""
        self.died(replica)
        del self.retiring[replica]
        self.replicas.remove(replica)
        del self._sessions[replica]

    @property
    def staying(self) -> list[Replica]:
        """Those that are not to end."""
        return [replica for replica in self.replicas if replica not in self.retiring]

    @property
    def name(self) -> str:
        """The model's, on the wire."""
        return self.replicas[0].config.name

    @property
    def card(self) -> ModelCard | None:
        """Of the model as a whole."""
        card, apart = self._own, self.encoders.parameters
        if card is None or not apart:
            return card
        return dataclasses.replace(card, parameters=card.parameters + apart)

    @property
    def cards(self) -> list[ModelCard]:
        """Of its adapters, each a model for who asks."""
        if self.card is None:
            return []
        card, names = self.card, sorted(self.adapters)
        return [dataclasses.replace(card, id=f"{card.id}:{name}", parent=card.id) for name in names]

    def follow_first(self) -> None:
        """The others load what the first one chose."""
        first, *others = self.engines
        for replica in others:
            replica.config = dataclasses.replace(replica.config, model=first.config.model)

    @property
    def is_up(self) -> bool:
        """Whether one of them can be asked, and answers."""
        return any(replica.is_up for replica in self.replicas)

    def choose(self, *, hung: bool = True) -> Replica | None:
        """Who gets the next session: where it would wait the least for its words, to a tenth of a
        second, and among those alike where fewest sessions are. One that is to end only if there is
        no other. hung: one that does not answer, likewise; it may yet. None: there is none."""
        running = [replica for replica in self.replicas if replica.is_running]
        answering = [replica for replica in running if replica.is_answering]
        staying = [replica for replica in answering if replica not in self.retiring]
        among = staying or answering or (running if hung else [])
        return min(among, key=self._preference, default=None)

    def _preference(self, replica: Replica) -> tuple[bool, float, int]:
        places = self._places.get(replica)
        load = None if places is None else places.load
        lag = 0.0 if load is None else round(load.lag, 1)
        return load is not None and not load.places, lag, self._sessions[replica]

    @property
    def load(self) -> LiveLoad | None:
        """Of all that are up; what one speaker more would do, where that is best."""
        up = [self._places[r].load for r in self.staying if r.is_up and r in self._places]
        loads = [load for load in up if load is not None]
        if not loads:
            return None
        return LiveLoad(
            speakers=sum(load.speakers for load in loads),
            places=sum(load.places for load in loads),
            lag=min(load.lag for load in loads),
            lag_beyond=min(load.lag_beyond for load in loads),
            bound=loads[0].bound,
            come_back=min(load.come_back for load in loads),
            tick=max(load.tick for load in loads),
        )

    @property
    def states(self) -> list[EngineState]:
        """In their order."""
        return [self._state(replica) for replica in self.engines]

    def _state(self, replica: Replica) -> EngineState:
        is_encoder = replica in self.encoders.replicas
        if replica.ready is not None:
            state = Availability.READY if replica.is_up else Availability.NOT_ANSWERING
            return EngineState(self.name, state, "", 1.0, replica.number, is_encoder)
        is_first = replica.status is None  # none of its processes has ended
        state = Availability.LOADING if is_first else Availability.RESTARTING
        now = replica.starting
        return EngineState(self.name, state, now.stage, now.fraction, replica.number, is_encoder)

    # --- what happens ----------------------------------------------------------------------------

    async def asked(self, ask: Callable[[Replica], Awaitable[T]]) -> T:
        """What one of them answers, when there is one; if it dies under the question, another one
        is asked, once. Raises EngineUnavailable."""
        replica = self.choose() or await self.answering()
        if replica is None:
            raise EngineUnavailable(f"the engine of {self.name} is not running")
        try:
            return await ask(replica)
        except EngineUnavailable:
            if replica.is_running or not self.recover_seconds:
                raise
            if (other := await self.answering()) is None:
                raise
        return await ask(other)

    async def answering(self) -> Replica | None:
        """Who can be asked, as soon as there is one; None: nobody could for `recover_seconds`."""
        replica = self.choose(hung=False)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.recover_seconds):
                while replica is None:
                    self._changed.clear()
                    await self._changed.wait()
                    replica = self.choose(hung=False)
        return replica

    def came_up(self, replica: Replica, card: ModelCard) -> None:
        """It is loaded. The first one's card says why it was chosen."""
        if self._own is None or replica is self.replicas[0]:
            self._own = card
        for name, folder in self.adapters.items():
            replica.send(LoadAdapter(f"{AGAIN}{name}", self.name, name, folder))
        self._changed.set()

    def said(self, replica: Replica, pong: Pong) -> None:
        """Its answer to a ping."""
        self.stats[replica] = pong
        self._places.setdefault(replica, Places()).said(pong.number, pong.load)
        self._changed.set()

    def let_in(self, replica: Replica) -> None:
        """Somebody may begin to speak there."""
        self._places.setdefault(replica, Places()).taken(replica.last_ping)

    def vacated(self, replica: Replica) -> None:
        """Somebody has gone from there: if it was full, it is asked at once how many may come: who
        comes back would be turned away until the next heartbeat. Raises EngineUnavailable."""
        places = self._places.get(replica)
        if places is not None and places.load is not None and not places.load.places:
            replica.ping()
            places.left(replica.last_ping)

    async def counted_out(self) -> None:
        """Until all engines have said what it changes that somebody has gone."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(COUNT_SECONDS):
                while any(places.is_old for places in self._places.values()):
                    self._changed.clear()
                    await self._changed.wait()

    def died(self, replica: Replica) -> None:
        """What it said is not true any more."""
        self.stats.pop(replica, None)
        self._places.pop(replica, None)
        self._changed.set()

    def seated(self, replica: Replica) -> None:
        """It has one session more."""
        self._sessions[replica] += 1

    def left(self, replica: Replica) -> None:
        """It has one session less."""
        self._sessions[replica] -= 1
