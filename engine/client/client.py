"""The gateway's side of the engine: starts its processes, sends messages, hands out events.

One process per model, or several (`Pool`). A session keeps the one that it was given. When that
dies it is started again, with growing pauses; its sessions go on with another one, or with itself
when it is back (`Journal`), and hear `EngineFailed` only if that takes too long. The others notice
nothing. `engine.client.replica` and `engine.client.channel` alone know how the two talk.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from lookhear.engine.client.errors import (
    EngineRequestError,
    EngineStartError,
    EngineUnavailable,
    InputRefused,
    ModelGone,
)
from lookhear.engine.client.fleet import Fleet, ProgressHandler, RequestHandler
from lookhear.engine.client.journal import Held
from lookhear.engine.client.pool import Pool
from lookhear.engine.client.replica import Replica
from lookhear.engine.client.requests.adapters import AdapterEvent, AdapterRequests
from lookhear.engine.client.requests.files import FileEvent, Files, OnProgress
from lookhear.engine.client.requests.pooling import PoolingEvent, PoolingRequests
from lookhear.engine.client.seat import Seat
from lookhear.engine.client.state import EngineState, Recovery
from lookhear.engine.config import EngineConfig
from lookhear.engine.messages import (
    AdapterLoaded,
    AnswerCompleted,
    AnswerFailed,
    AppendAudio,
    CancelAnswer,
    CancelTurn,
    CloseSession,
    DiariseFile,
    EndTurn,
    EngineFailed,
    Event,
    FileDiarised,
    FileTranscribed,
    ForModel,
    HoldEmbeddings,
    HoldPicture,
    LiveLoad,
    LoadAdapter,
    Message,
    ModelCard,
    Pong,
    Pooled,
    StartAnswer,
    StartPooling,
    StartTurn,
    TranscribeFile,
    TurnCompleted,
    TurnFailed,
    UnloadAdapter,
)

__all__ = [
    "EngineClient",
    "EngineRequestError",
    "EngineStartError",
    "EngineState",
    "EngineUnavailable",
    "InputRefused",
    "ModelGone",
    "Recovery",
]

EventHandler = Callable[[Event], None]
# An engine that is to end lets those who speak come to the end of their turn, but no longer.
MOVE_SECONDS = 15.0


@dataclass(slots=True)
class _Listener:
    """A session. model: of its turns to come. seats: with the engines that may know of it."""

    on_event: EventHandler
    model: str
    seats: dict[Pool, Seat] = field(default_factory=dict)


class EngineClient:
    """All engines of one gateway. Every method belongs to the event loop that called `load`.

    configs: one per model, each with a name of its own; the first is the default. module: what
    their processes run; a benchmark of the gateway alone has an engine without a model.
    """

    def __init__(
        self, configs: Sequence[EngineConfig], *, module: str = "lookhear.engine.process"
    ) -> None:
        self._fleet = Fleet(
            configs,
            lambda config, on_event: Replica(config, on_event, module),
            self._on_event,
            self._on_death,
            self._move,
            self._vacate,
        )
        self._listeners: dict[str, _Listener] = {}
        self._works: dict[tuple[str, str], Seat] = {}  # turns and answers
        self._files = Files()
        self._pooling = PoolingRequests()
        self._adapters = AdapterRequests()
        self._requests = (self._files, self._pooling, self._adapters)
        self._waiting: dict[Seat, None] = {}  # for an engine, whoever waits longest first
        self._moving: dict[Pool, asyncio.Task[None]] = {}
        self._held = Held()
        self._moved = self._lost = 0

    async def load(self, on_progress: ProgressHandler | None = None) -> None:
        """Start all engines and wait until every one is ready.

        Raises EngineStartError as soon as one cannot load its model; the others are ended then.
        """
        await self._fleet.load(on_progress)

    async def close(self) -> None:
        """End all engines and wait for them."""
        for listener in self._listeners.values():
            for seat in listener.seats.values():
                self._close_seat(seat)
            listener.seats.clear()
        self._adapters.close()
        await self._fleet.close()
        await asyncio.gather(*self._moving.values(), return_exceptions=True)

    # --- how the engines are ---------------------------------------------------------------------

    def is_ready(self, model: str) -> bool:
        """Whether an engine of this model is up right now, and answers."""
        return self._fleet.is_ready(model)

    async def until_ready(self, model: str) -> bool:
        """See `Fleet`."""
        return await self._fleet.until_ready(model)

    @property
    def models(self) -> list[ModelCard]:
        """See `Fleet`."""
        return self._fleet.models

    @property
    def states(self) -> list[EngineState]:
        """See `Fleet`."""
        return self._fleet.states

    @property
    def stats(self) -> dict[str, Pong]:
        """See `Fleet`."""
        return self._fleet.stats

    def live_load(self, model: str) -> LiveLoad | None:
        """See `Fleet`."""
        return self._fleet.live_load(model)

    async def counted_out(self, model: str) -> None:
        """See `Fleet`."""
        await self._fleet.counted_out(model)

    def watch(self, on_request: RequestHandler) -> None:
        """on_request hears of each request that an engine computed, on the event loop."""
        self._fleet.on_request = on_request

    @property
    def pids(self) -> dict[str, int | None]:
        """See `Fleet`."""
        return self._fleet.pids

    @property
    def recovery(self) -> Recovery:
        """What came of engines that died."""
        held = self._held
        return Recovery(self._moved, self._lost, held.bytes, held.forgotten_seconds)

    # --- sessions --------------------------------------------------------------------------------

    def open_session(self, session: str, on_event: EventHandler) -> None:
        """Events of the session's turns go to on_event, on the event loop; so does `EngineFailed`,
        if an engine dies that has something of it and nobody takes over in time. Its model is the
        default."""
        self._listeners[session] = _Listener(on_event, self._fleet.default)

    def use_model(self, session: str, model: str) -> None:
        """The session's turns to come are for this model, with whichever adapter."""
        self._listeners[session].model = self._fleet.base(model)

    def serves(self, session: str, model: str) -> bool:
        """Whether that model's engine knows the session: it speaks, is to speak, or has asked."""
        listener = self._listeners.get(session)
        return listener is not None and self._fleet.pool(model) in listener.seats

    def close_session(self, session: str) -> None:
        """Drop the session and all its turns. Idempotent."""
        listener = self._listeners.pop(session, None)
        if listener is None:
            return
        self._works = {key: seat for key, seat in self._works.items() if key[0] != session}
        for seat in listener.seats.values():
            replica = seat.replica
            self._close_seat(seat)
            if replica is not None:
                with contextlib.suppress(EngineUnavailable):  # it has forgotten the session anyway
                    replica.send(CloseSession(session))
                    seat.pool.vacated(replica)

    def send(self, message: Message) -> None:
        """Send a message of a session: about a turn or an answer to the engine that has it, else
        to that of the model it names. While that engine is gone the message waits for another.

        A message of a session that is closed, or for a turn or answer that has ended already, is
        dropped. Raises EngineUnavailable.
        """
        if isinstance(message, ForModel):
            if (seat := self._seat(message.session, message.model)) is not None:
                seat.send(message)
            return
        match message:
            case StartTurn(session, work, settings) | StartAnswer(session, work, settings):
                if (seat := self._seat(session, settings.model)) is not None:
                    seat.send(message)
                    self._works[session, work] = seat
            case AppendAudio(session, work) | EndTurn(session, work):
                if (seat := self._works.get((session, work))) is not None:
                    seat.send(message)
            case CancelTurn(session, work) | CancelAnswer(session, work):
                if (seat := self._works.pop((session, work), None)) is not None:
                    seat.send(message)
            case _:
                raise AssertionError(f"not of a session: {message}")

    def _seat(self, session: str, model: str) -> Seat | None:
        """Where the session is served by that model. None: it is closed."""
        pool = self._fleet.pool(model)
        listener = self._listeners.get(session)
        if listener is None:
            return None
        seat = listener.seats.get(pool)
        if seat is None:
            seat = Seat(session, pool, self._held)
            if (replica := pool.choose()) is not None:
                seat.sit(replica)
            elif seat.can_resume:
                self._wait(seat)
            else:
                raise EngineUnavailable(seat.failure.message)
            listener.seats[pool] = seat
        return seat

    async def transcribe_file(
        self, message: TranscribeFile, on_progress: OnProgress | None = None
    ) -> FileTranscribed:
        """on_progress: hears of the text as it is written. Raises EngineRequestError and
        EngineUnavailable. Cancelled, so is the work. If its engine dies another is asked, once."""
        pool = self._fleet.pool(message.settings.model)
        return await self._files.transcribe(pool, message, on_progress)

    async def pool(
        self, message: StartPooling, held: Sequence[HoldPicture | HoldEmbeddings] = ()
    ) -> list[Pooled]:
        """As `transcribe_file`, or raises InputRefused. held: what the message names."""
        pool = self._fleet.pool(message.settings.model)
        return await self._pooling.ask(pool, message, held)

    async def diarise_file(self, message: DiariseFile) -> FileDiarised:
        """As `transcribe_file`, by the model that the message names."""
        return await self._files.diarise(self._fleet.pool(message.model), message)

    async def load_adapter(self, message: LoadAdapter, *, replaces: bool) -> AdapterLoaded:
        """By all engines of the model, or by none. Raises EngineRequestError, EngineUnavailable."""
        return await self._adapters.load(
            self._fleet.pool(message.model), message, replaces=replaces
        )

    async def unload_adapter(self, message: UnloadAdapter) -> None:
        """As `load_adapter`."""
        await self._adapters.unload(self._fleet.pool(message.model), message)

    # --- events ----------------------------------------------------------------------------------

    def _on_event(self, pool: Pool, replica: Replica, event: Event) -> None:
        if isinstance(event, FileEvent):
            self._files.take(event)
            return
        if isinstance(event, PoolingEvent):
            self._pooling.take(event)
            return
        if isinstance(event, AdapterEvent):
            self._adapters.take(pool, replica, event)
            return
        session = getattr(event, "session", "")
        listener = self._listeners.get(session)
        seat = None if listener is None else listener.seats.get(pool)
        if seat is None or seat.replica is not replica:
            return
        match heard := seat.heard(event):
            case None:
                return
            case (
                TurnCompleted(_, work)
                | TurnFailed(_, work)
                | AnswerCompleted(_, work)
                | AnswerFailed(_, work)
            ):
                self._works.pop((session, work), None)
        self._hand_out(session, heard)

    def _hand_out(self, session: str, event: Event) -> None:
        listener = self._listeners.get(session)
        if listener is not None:
            listener.on_event(event)

    # --- deaths ----------------------------------------------------------------------------------

    def _on_death(self, pool: Pool, replica: Replica, failure: EngineFailed) -> None:
        for requests in self._requests:
            requests.lose(replica, failure.message)
        is_told = not pool.recover_seconds and not pool.is_up
        for session, listener in list(self._listeners.items()):
            seat = listener.seats.get(pool)
            if seat is not None and seat.replica is replica:
                has_work = seat in self._works.values()
                seat.lose(failure)
                if seat.can_resume:
                    self._wait(seat)
                elif seat.journal is not None or has_work or listener.model == pool.name:
                    self._give_up(seat)
                else:
                    del listener.seats[pool]
            elif is_told and seat is None and listener.model == pool.name:
                self._hand_out(session, failure)
        self._move(pool)

    def _vacate(self, pool: Pool, replica: Replica) -> bool:
        """Sessions of an engine that is to end go on with the others, between two turns where they
        can. Returns whether nobody has anything there any more."""
        chosen = pool.choose(hung=False)
        if chosen is None or chosen in pool.retiring:
            return False
        now = asyncio.get_running_loop().time()
        is_late = now >= pool.retiring[replica] + MOVE_SECONDS
        seats = [listener.seats.get(pool) for listener in self._listeners.values()]
        left = [seat for seat in seats if seat is not None and seat.replica is replica]
        for seat in left:
            if seat.can_resume and (is_late or not seat.is_busy):
                seat.leave()
                self._wait(seat)
        self._move(pool)
        is_used = any(seat.replica is replica for seat in left)
        return not (is_used or any(requests.has(replica) for requests in self._requests))

    def _wait(self, seat: Seat) -> None:
        """For an engine, so long and no longer."""
        self._waiting[seat] = None
        seat.timer = asyncio.get_running_loop().call_later(
            seat.pool.recover_seconds, self._give_up, seat
        )

    def _move(self, pool: Pool) -> None:
        """Sessions that wait go on, where they can."""
        is_needed = any(seat.pool is pool for seat in self._waiting)
        if is_needed and pool.choose(hung=False) is not None and pool not in self._moving:
            self._moving[pool] = asyncio.create_task(self._move_all(pool))

    async def _move_all(self, pool: Pool) -> None:
        """One after another, as the engine reads: what all have under way is much."""
        try:
            for seat in [seat for seat in self._waiting if seat.pool is pool]:
                if (replica := pool.choose(hung=False)) is None:
                    return  # when one comes up, or answers, it is tried again
                await replica.drain()
                if seat not in self._waiting:
                    continue  # it was closed, or given up
                with contextlib.suppress(EngineUnavailable):  # it died in the meantime
                    has_left = seat.has_left
                    seat.resume(replica)
                    del self._waiting[seat]
                    self._moved += not has_left
        finally:
            del self._moving[pool]

    def _give_up(self, seat: Seat) -> None:
        """Nobody took over: the session is told."""
        self._lost += 1
        del self._listeners[seat.session].seats[seat.pool]
        self._works = {key: other for key, other in self._works.items() if other is not seat}
        self._close_seat(seat)
        self._hand_out(seat.session, seat.failure)

    def _close_seat(self, seat: Seat) -> None:
        self._waiting.pop(seat, None)
        seat.close()
