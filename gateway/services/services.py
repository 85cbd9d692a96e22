"""What the routes of one gateway share."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar, cast

from starlette.requests import HTTPConnection

from lookhear.engine.messages import ModelCard
from lookhear.gateway.checks.checks import shown
from lookhear.gateway.checks.models import choose, names_adapter, with_names
from lookhear.gateway.config import GatewayConfig
from lookhear.gateway.decoding.decoders import Decoders
from lookhear.gateway.fetching.fetcher import Fetcher
from lookhear.gateway.fetching.pictures import Pictures
from lookhear.gateway.http.access import Access
from lookhear.gateway.http.errors import ApiError, wrong
from lookhear.gateway.services.engine import Engine
from lookhear.gateway.services.siblings import Siblings
from lookhear.gateway.services.turn_ends import TurnEnds
from lookhear.gateway.services.under_way import UnderWay
from lookhear.gateway.services.vad_batcher import VadBatcher
from lookhear.gateway.slots import Claim, Slots
from lookhear.gateway.sockets.connections import Connections
from lookhear.gateway.sockets.files import most_connections
from lookhear.gateway.sockets.gathering import Gathering
from lookhear.gateway.sockets.shares import Shares
from lookhear.gateway.telemetry.ids import Ids
from lookhear.gateway.telemetry.log import log_event
from lookhear.gateway.telemetry.memory import Memory
from lookhear.gateway.telemetry.metrics import Metrics
from lookhear.gateway.telemetry.refusals import Refusals
from lookhear.media.voice.silero import SileroModel

T = TypeVar("T")

# Decoded or about to be, and waiting for the engine: in all, and of one client. More wait. An hour
# of audio is 230 MB.
FILES_AT_ONCE, FILES_OF_ONE = 4, 3
GOODBYE_SECONDS = 2.0  # how long a shutdown waits for its sessions
# After the time that a drain has: for the text of what came in it.
LAST_WORDS_SECONDS = 5.0
SESSION_BYTES = 256 * 1024  # about what one takes
END_SECONDS = 1.0  # how long its client, who comes back, waits for a session to end
GRACE = 5.0  # seconds for a session's first message while others want its place
LAG_INTERVAL = 0.05  # seconds between two looks at the event loop


class OpenSession(Protocol):
    """What the services hold of a realtime session."""

    @property
    def id(self) -> str:
        """Its name, for the engines too."""

    @property
    def ended(self) -> asyncio.Event:
        """Set when its socket is closed and its engine rows are free."""

    def drain(self, seconds: float) -> None:
        """What is under way may end; then it closes. The server ends in so many seconds."""

    def depart(self) -> None:
        """Take nothing more; close once the text of what came is said."""

    @property
    def client(self) -> str:
        """Whose it is: a key's or an address's."""

    @property
    def is_ending(self) -> bool:
        """Whether its socket is closed, or about to be: what it has will be free in a moment."""

    @property
    def silent_for(self) -> float:
        """Seconds in which its client has not sent a first message; 0.0 once it has."""

    @property
    def away_for(self) -> float:
        """Seconds since its client's socket was cut; 0.0 while there is one."""

    def give_way(self) -> None:
        """Close it, so that another one may have its place."""

    def shut_down(self) -> None:
        """Close it as the server stops."""


@dataclass(slots=True)
class Services:
    """clock: seconds, monotonic. now: Unix seconds. pictures: loads what messages point at."""

    config: GatewayConfig
    engine: Engine
    access: Access
    metrics: Metrics
    silero: SileroModel
    decoders: Decoders
    hearing: ThreadPoolExecutor  # one thread, for live speech alone
    threads: ThreadPoolExecutor  # for whatever else would hold up the event loop
    clock: Callable[[], float] = time.monotonic
    now: Callable[[], float] = time.time
    ids: Callable[[str], str] = field(default_factory=Ids)
    draining: bool = False
    closing: bool = False
    file_slots: Slots = field(default_factory=lambda: Slots(FILES_AT_ONCE, FILES_OF_ONE, 1))
    # Of recordings that are fetched, or were and wait for one of the others.
    fetch_slots: Slots = field(default_factory=lambda: Slots(FILES_AT_ONCE, FILES_OF_ONE, 1))
    sessions: set[OpenSession] = field(default_factory=set)
    requests: UnderWay = field(default_factory=UnderWay)
    relays: UnderWay = field(default_factory=UnderWay)  # connections to other workers' sessions
    siblings: Siblings = field(default_factory=Siblings)
    gathering: Gathering = field(default_factory=lambda: Gathering(LAG_INTERVAL))
    shares: Shares = field(init=False)
    memory: Memory = field(default_factory=Memory)
    refusals: Refusals = field(init=False)
    connections: Connections = field(init=False)
    pictures: Pictures = field(init=False)
    vad: VadBatcher = field(init=False)
    turn_ends: TurnEnds = field(init=False)

    def __post_init__(self) -> None:
        config = self.config
        self.engine.watch(self.metrics.computed)
        self.shares = Shares(self.clock, time.thread_time)
        self.refusals = Refusals(self.metrics, self.clock)
        most = most_connections(config.max_connections)
        most_of_one = max(1, min(config.max_client_connections, most // 2))
        self.connections = Connections(most, most_of_one, self.refusals.add, config.trusted_proxies)
        self.vad = VadBatcher(self.silero, self.hearing)
        self.turn_ends = TurnEnds(self.metrics)
        fetcher = Fetcher(
            self.in_thread,
            wait_seconds=config.fetch_wait_seconds,
            waited=self.metrics.fetch_wait.observe,
        )
        self.pictures = Pictures(config, fetcher, self.decoders.run)

    def observe_lag(self, seconds: float) -> None:
        """How late the event loop was just now."""
        self.metrics.loop_lag.observe(seconds)
        self.gathering.observe(seconds)

    def see_engines(self) -> None:
        """What they last said becomes numbers of ours."""
        engine = self.engine
        loads = {state.model: engine.live_load(state.model) for state in engine.states}
        known = {model: load for model, load in loads.items() if load is not None}
        self.metrics.see_engines(engine.states, engine.stats, known, engine.recovery)

    @property
    def status(self) -> str:
        """How this process is: `ready` only while all of its engines are up."""
        if self.closing:
            return "closing"
        if self.draining:
            return "draining"
        if not self.engine.models:
            return "starting"
        up = all(self.engine.is_ready(state.model) for state in self.engine.states)
        return "ready" if up else "engine_down"

    @property
    def models(self) -> list[ModelCard]:
        """Those that were loaded, the default first, each with the names it is asked by."""
        config = self.config
        return with_names(self.engine.models, config.aliases, is_strict=config.strict_models)

    @property
    def takes_work(self) -> bool:
        """Whether some model can be asked now. None can until all have been loaded."""
        engine = self.engine
        return not self.closing and any(engine.is_ready(card.id) for card in engine.models)

    def check_loaded(self) -> None:
        """Raises ApiError (503) until all models have been loaded, and once the server ends."""
        if self.closing or not self.engine.models:
            raise ApiError(503, "no model can be asked yet; try again", code="engine_not_ready")

    async def until_ready(self, model: str) -> None:
        """Until it can be asked: an engine that is being started again is waited for, as sessions
        wait (`--recover-seconds`). Raises ApiError (503): it is not back by then."""
        if not await self.engine.until_ready(model):
            message = f"the engine of {model} is not ready; try again"
            raise ApiError(503, message, code="engine_not_ready")

    async def in_thread(self, work: Callable[[], T]) -> T:
        """Run `work` in a thread: the event loop must never wait for it. Who asks waits, and so
        does what it reads from: the threads' queue holds one piece of work of each."""
        return await asyncio.get_running_loop().run_in_executor(self.threads, work)

    async def while_hearing(self, work: Callable[[], T]) -> T:
        """Run a few milliseconds of work on live speech in the thread that has nothing else to
        do: neither files nor messages can hold it up."""
        return await asyncio.get_running_loop().run_in_executor(self.hearing, work)

    def claim(self, connection: HTTPConnection, request: str) -> Claim:
        """What is done for this connection. request: an id of what is asked."""
        address = connection.client.host if connection.client else ""
        offered = connection.scope.get("subprotocols", ())
        return Claim(self.access.client(connection.headers, address, offered), request)

    @property
    def is_leaving(self) -> bool:
        """Nothing new is begun any more."""
        return self.draining or self.closing

    async def drain(self, seconds: float) -> None:
        """Begin nothing new, and wait for what is under way, so many seconds at most. Sessions that
        last until then have their open turns ended, and get the text of what they said."""
        self.draining = True
        self.metrics.draining.set(1)
        log_event("drain", sessions=len(self.sessions), requests=self.requests.count, most=seconds)
        sessions = list(self.sessions)
        for session in sessions:
            session.drain(seconds)
        is_over = await self._over(seconds)
        finished = sum(session.ended.is_set() for session in sessions)
        self.metrics.drained.labels("finished").inc(finished)
        self.metrics.drained.labels("cut").inc(len(sessions) - finished)
        if not is_over:
            for session in list(self.sessions):
                session.depart()
            await self._over(LAST_WORDS_SECONDS)
        log_event("drained", sessions=len(self.sessions), requests=self.requests.count)

    async def counted_out(self, client: str, model: str | None) -> None:
        """Until what those who have just gone had is free, or is known not to be: the session that
        this client has closed, which may be the only one there is, and places to speak to that
        model. So who comes back at once finds its own place."""
        ending = [s for s in self.sessions if s.client == client and s.is_ending]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(END_SECONDS):
                await asyncio.gather(*(session.ended.wait() for session in ending))
        if model is not None:
            await self.engine.counted_out(model)

    def has_room(self, client: str) -> bool:
        """Whether one session more may be opened by that client. Who has opened one and said
        nothing for a while makes room for others."""
        most, of_one = self.config.max_sessions, self.config.max_client_sessions
        if of_one:
            own = [session for session in self.sessions if session.client == client]
            if len(own) >= of_one and not self.make_room(own):
                return False
        return len(self.sessions) < most or self.make_room(self.sessions, client)

    @property
    def is_full(self) -> bool:
        """Whether a newcomer would have to be refused, or somebody else to make room for it."""
        if len(self.sessions) >= self.config.max_sessions:
            return True
        loads = (self.engine.live_load(card.id) for card in self.engine.models)
        return any(load is not None and not load.places for load in loads)

    def make_place(self, model: str | None, newcomer: str) -> bool:
        """As `make_room`, of those whom that model hears: somebody may speak instead."""
        speakers = [s for s in self.sessions if self.engine.serves(s.id, model or "")]
        return self.make_room(speakers, newcomer)

    def make_room(self, sessions: Collection[OpenSession], newcomer: str | None = None) -> bool:
        """Close one of them whose client is away: of a client that has most of them, the one that
        has been away longest. If none is, the one that has been silent longest -> whether there was
        such a one.

        newcomer: a client. Who holds more sessions than it would have is not given `GRACE`: else
        one that opens silent ones faster than they are closed would keep all others out.
        """
        held = Counter(session.client for session in sessions)
        own = len(sessions) if newcomer is None else held[newcomer] + 1

        def may_go(session: OpenSession) -> bool:
            grace = 0.0 if held[session.client] > own else GRACE
            return session.silent_for > 0.0 and session.silent_for >= grace

        away = [session for session in sessions if session.away_for > 0.0]
        # Else who leaves many behind would soon have those given up of all others.
        longest = max(away, key=lambda s: (held[s.client], s.away_for), default=None)
        silent = filter(may_go, sessions)
        session = longest or max(silent, key=lambda s: s.silent_for, default=None)
        if session is None:
            return False
        self.sessions.discard(session)
        session.give_way()
        return True

    def forget(self, session: OpenSession) -> None:
        """It is over, and what it took is given back."""
        self.sessions.discard(session)
        self.memory.freed(SESSION_BYTES)

    async def close_sessions(self) -> None:
        """Say goodbye (1001) to every session and wait until they are gone."""
        self.closing = True
        for session in list(self.sessions):
            session.shut_down()
        await self._over(GOODBYE_SECONDS, requests=False)  # who does not read hears no goodbye

    async def _over(self, seconds: float, *, requests: bool = True) -> bool:
        """Whether the sessions and requests of now end within so many seconds."""
        ends: list[Coroutine[Any, Any, object]] = [s.ended.wait() for s in self.sessions]
        ends += [self.relays.over()] + ([self.requests.over()] if requests else [])
        try:
            async with asyncio.timeout(seconds):
                await asyncio.gather(*ends)
        except TimeoutError:
            return False
        return True


def served(
    name: str | None,
    models: Sequence[ModelCard],
    ability: str | None = None,
    wanted: Collection[str] = (),
) -> ModelCard:
    """The model that is called so and has the ability; for None, and for names that no model has
    unless they are refused, the first of those, rather one that has all the `wanted` ones, too.

    Raises ApiError: 404 if there is no such model, 400 if it cannot do that.
    """
    able = [card for card in models if ability is None or card.can(ability)]
    likely = [card for card in able if all(map(card.can, wanted))]
    is_known = name is not None and any(card.is_called(name) for card in models)
    card = choose(name, able if is_known else likely or able, models)
    if card is not None:
        return card
    stands_in = any(card.stands_in for card in models)
    if name is None or is_known or (stands_in and not names_adapter(name, models)):
        can = f"can {ability} ({', '.join(shown(card.id) for card in able) or 'none is served'})"
        got = "none" if name is None else shown(name)
        raise wrong("model", f"one that {can}", got, "unsupported_model")
    known = ", ".join(shown(card.id) for card in models)
    message = f"model: expected a served model ({known}), got {shown(name)}"
    raise ApiError(404, message, code="model_not_found", param="model")


def services(connection: HTTPConnection) -> Services:
    """The services of the app that serves this connection."""
    return cast(Services, connection.app.state.services)
