"""The gateway's side of the engine: starts its processes, sends messages, hands out events.

One process per model. When one dies, the sessions of its model hear `EngineFailed` once, the others
go on, and the process is started again, with growing pauses. `engine.client.replica`
and `engine.client.channel` alone know how the two talk.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from lookhear.engine.client.errors import (
    EngineRequestError,
    EngineStartError,
    EngineUnavailable,
)
from lookhear.engine.client.places import Places
from lookhear.engine.client.replica import Replica
from lookhear.engine.client.state import Availability, EngineState
from lookhear.engine.client.supervisor import keep_alive
from lookhear.engine.config import EngineConfig
from lookhear.engine.messages import (
    AnswerCompleted,
    AnswerFailed,
    AppendAudio,
    CancelAnswer,
    CancelFile,
    CancelTurn,
    CloseSession,
    DropPicture,
    EndTurn,
    EngineFailed,
    Event,
    ExpectSpeech,
    FileFailed,
    FileTranscribed,
    HoldPicture,
    LiveLoad,
    Message,
    ModelCard,
    Pong,
    ReadAhead,
    Ready,
    Shutdown,
    StartAnswer,
    Starting,
    StartTurn,
    TranscribeFile,
    TurnCompleted,
    TurnFailed,
)

__all__ = [
    "EngineClient",
    "EngineRequestError",
    "EngineStartError",
    "EngineState",
    "EngineUnavailable",
]

log = logging.getLogger(__name__)

_OfSession = ExpectSpeech | StartTurn | StartAnswer | HoldPicture | DropPicture | ReadAhead
EventHandler = Callable[[Event], None]
ProgressHandler = Callable[[str, Starting], None]  # told the model's name with each


@dataclass(slots=True)
class _Listener:
    """A session. model: of its turns to come. replicas: the engines that may know of it."""

    on_event: EventHandler
    model: str
    replicas: set[Replica] = field(default_factory=set)


class EngineClient:
    """All engines of one gateway. Every method belongs to the event loop that called `load`.

    configs: one per model, each with a name of its own; the first is the default. module: what
    their processes run; a benchmark of the gateway alone has an engine without a model.
    """

    def __init__(
        self, configs: Sequence[EngineConfig], *, module: str = "lookhear.engine.process"
    ) -> None:
        names = [config.name for config in configs]
        if len(set(names)) != len(names):
            raise ValueError(f"models need different names, got {', '.join(names)}")
        self._default = names[0]
        self._on_progress: ProgressHandler | None = None
        self._replicas = {c.name: Replica(c, self._on_event, module) for c in configs}
        self._tasks: list[asyncio.Task[None]] = []
        self._listeners: dict[str, _Listener] = {}
        self._turns: dict[tuple[str, str], Replica] = {}  # turns and answers
        self._files: dict[str, tuple[Replica, asyncio.Future[FileTranscribed]]] = {}
        self._cards: dict[str, ModelCard] = {}
        self._closing = asyncio.Event()
        self._stats: dict[str, Pong] = {}
        self._places: dict[str, Places] = {}  # of engines that are up

    @classmethod
    async def start(
        cls, configs: Sequence[EngineConfig], *, on_progress: ProgressHandler | None = None
    ) -> EngineClient:
        """A client whose engines are loaded: see `load`."""
        client = cls(configs)
        await client.load(on_progress)
        return client

    async def load(self, on_progress: ProgressHandler | None = None) -> None:
        """Start one engine per config, all at once, and wait until every one is ready.

        Raises EngineStartError as soon as one cannot load its model; the others are ended then.
        """
        assert not self._tasks, "loaded already"
        self._on_progress = on_progress
        try:
            await asyncio.gather(*(self._first_start(r) for r in self._replicas.values()))
        except BaseException:
            await self.close()
            raise
        finally:
            self._on_progress = None  # a restart is told in the log

    async def _first_start(self, replica: Replica) -> None:
        started = asyncio.Event()
        keeping = keep_alive(replica, self._closing, started, self._was_ready, self._announce_death)
        self._tasks.append(asyncio.create_task(keeping))
        await started.wait()
        if replica.ready is None:
            reason = f"its process ended with status {replica.status} before it was ready"
            if replica.failure is not None:
                reason = replica.failure.message.removeprefix(f"{replica.config.model}: ")
            raise EngineStartError(f"cannot load {replica.config.name}: {reason}")

    def _was_ready(self, replica: Replica) -> bool:
        return replica.config.name in self._cards

    @property
    def ready(self) -> bool:
        """Whether every engine is up right now."""
        return all(replica.is_up for replica in self._replicas.values())

    def is_ready(self, model: str) -> bool:
        """Whether the engine of this model is up right now, and answers."""
        replica = self._replicas.get(model)
        return replica is not None and replica.is_up

    @property
    def models(self) -> list[ModelCard]:
        """The served models, the default first, also while an engine is being restarted.

        Empty until all of them have been ready once.
        """
        names = [name for name in self._replicas if name in self._cards]
        return [self._cards[name] for name in names] if len(names) == len(self._replicas) else []

    @property
    def states(self) -> list[EngineState]:
        """How each engine is, in the order of the configs."""
        states = []
        for name, replica in self._replicas.items():
            if replica.ready is not None:
                state = Availability.READY if replica.is_up else Availability.NOT_ANSWERING
                states.append(EngineState(name, state, "", 1.0))
            else:
                has_died = name in self._cards
                state = Availability.RESTARTING if has_died else Availability.LOADING
                now = replica.starting
                states.append(EngineState(name, state, now.stage, now.fraction))
        return states

    @property
    def stats(self) -> dict[str, Pong]:
        """What each engine last said of its work, per model name; at most a heartbeat old."""
        return dict(self._stats)

    def live_load(self, model: str) -> LiveLoad | None:
        """Who speaks to that model, and how many more may, as of now. None: it does not bound the
        lag, or has not answered yet."""
        places = self._places.get(model)
        return None if places is None else places.load

    @property
    def pids(self) -> dict[str, int | None]:
        """Process id per model name."""
        return {name: replica.pid for name, replica in self._replicas.items()}

    # --- sessions --------------------------------------------------------------------------------

    def open_session(self, session: str, on_event: EventHandler) -> None:
        """Events of the session's turns go to on_event, on the event loop; so does `EngineFailed`,
        if the engine of its model dies or one that has a turn of it. Its model is the default."""
        self._listeners[session] = _Listener(on_event, self._default)

    def use_model(self, session: str, model: str) -> None:
        """The session's turns to come are for this model."""
        self._listeners[session].model = model

    def close_session(self, session: str) -> None:
        """Drop the session and all its turns. Idempotent."""
        listener = self._listeners.pop(session, None)
        if listener is None:
            return
        self._turns = {key: r for key, r in self._turns.items() if key[0] != session}
        for replica in listener.replicas:
            with contextlib.suppress(EngineUnavailable):  # then it has forgotten the session anyway
                replica.send(CloseSession(session))

    def send(self, message: Message) -> None:
        """Send a message of a session: about a turn or an answer to the engine that has it, else
        to that of the model it names.

        A message for a turn or answer that has ended already is dropped. Raises EngineUnavailable.
        """
        match message:
            case StartTurn(session, work, settings) | StartAnswer(session, work, settings):
                self._turns[session, work] = self._send_to(settings.model, message)
            case HoldPicture() | DropPicture() | ReadAhead():
                self._send_to(message.model, message)
            case ExpectSpeech(_, model):
                last_ping = self._send_to(model, message).last_ping
                self._places.setdefault(model, Places()).taken(last_ping)
            case AppendAudio(session, work) | EndTurn(session, work):
                if (replica := self._turns.get((session, work))) is not None:
                    replica.send(message)
            case CancelTurn(session, work) | CancelAnswer(session, work):
                if (replica := self._turns.pop((session, work), None)) is not None:
                    replica.send(message)
            case _:
                raise AssertionError(f"not of a session: {message}")

    def _send_to(self, model: str, message: _OfSession) -> Replica:
        replica = self._replica(model)
        replica.send(message)
        if (listener := self._listeners.get(message.session)) is not None:
            listener.replicas.add(replica)
        return replica

    def _replica(self, model: str) -> Replica:
        replica = self._replicas.get(model)
        if replica is None:
            raise EngineUnavailable(f"no engine serves {model!r}")
        return replica

    async def transcribe_file(self, message: TranscribeFile) -> FileTranscribed:
        """Raises EngineRequestError, EngineUnavailable. Cancelling the call cancels the work."""
        replica = self._replica(message.settings.model)
        future: asyncio.Future[FileTranscribed] = asyncio.get_running_loop().create_future()
        replica.send(message)
        self._files[message.request] = (replica, future)
        try:
            return await future
        except asyncio.CancelledError:
            with contextlib.suppress(EngineUnavailable):  # then it has forgotten the file anyway
                replica.send(CancelFile(message.request))
            raise
        finally:
            self._files.pop(message.request, None)

    async def close(self) -> None:
        """End all engines and wait for them."""
        self._closing.set()
        for replica in self._replicas.values():
            if replica.ready is not None:
                with contextlib.suppress(EngineUnavailable):  # it ends with its socket too
                    replica.send(Shutdown())
                replica.hang_up()
            else:
                replica.kill()  # it may be loading for minutes
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # --- events ----------------------------------------------------------------------------------

    def _on_event(self, replica: Replica, event: Event) -> None:
        match event:
            case Starting():
                if self._on_progress is not None:
                    self._on_progress(replica.config.name, event)
            case Ready(models):
                # One that chose its model is called as that from now on.
                self._replicas = {r.config.name: r for r in self._replicas.values()}
                self._default = next(iter(self._replicas))
                self._cards[replica.config.name] = models[0]
            case Pong():
                model = replica.config.name
                self._stats[model] = event
                self._places.setdefault(model, Places()).said(event.number, event.load)
            case FileTranscribed() | FileFailed():
                self._finish_file(event)
            case (
                TurnCompleted(session, work)
                | TurnFailed(session, work)
                | AnswerCompleted(session, work)
                | AnswerFailed(session, work)
            ):
                self._turns.pop((session, work), None)
                self._hand_out(session, event)
            case _:
                if (name := getattr(event, "session", None)) is not None:
                    self._hand_out(name, event)

    def _hand_out(self, session: str, event: Event) -> None:
        listener = self._listeners.get(session)
        if listener is not None:
            listener.on_event(event)

    def _finish_file(self, event: FileTranscribed | FileFailed) -> None:
        entry = self._files.get(event.request)
        if entry is None or entry[1].done():
            return
        if isinstance(event, FileTranscribed):
            entry[1].set_result(event)
        else:
            entry[1].set_exception(EngineRequestError(event.code, event.message))

    def _announce_death(self, replica: Replica, status: int) -> None:
        log.error(
            "engine of %s ended with status %d; starting it again", replica.config.name, status
        )
        failure = replica.failure or EngineFailed(
            "engine_died", f"the engine of {replica.config.name} ended unexpectedly"
        )
        hit = {key[0] for key, r in self._turns.items() if r is replica}
        hit |= {s for s, known in self._listeners.items() if known.model == replica.config.name}
        self._stats.pop(replica.config.name, None)
        self._places.pop(replica.config.name, None)
        self._turns = {key: r for key, r in self._turns.items() if r is not replica}
        for session in hit:
            self._hand_out(session, failure)
        for owner, future in self._files.values():
            if owner is replica and not future.done():
                future.set_exception(EngineUnavailable(failure.message))
