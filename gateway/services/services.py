"""What the routes of one gateway share."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Protocol, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from starlette.requests import HTTPConnection

from lookhear.engine.client.client import EngineState
from lookhear.engine.messages import (
    Event,
    FileTranscribed,
    Message,
    ModelCard,
    Pong,
    TranscribeFile,
)
from lookhear.gateway.config import GatewayConfig
from lookhear.gateway.fetching.fetcher import Fetcher
from lookhear.gateway.fetching.pictures import Pictures
from lookhear.gateway.http.access import Access
from lookhear.gateway.http.errors import ApiError, wrong
from lookhear.gateway.services.vad_batcher import VadBatcher
from lookhear.gateway.sockets.gathering import Gathering
from lookhear.gateway.telemetry.ids import Ids
from lookhear.gateway.telemetry.metrics import Metrics
from lookhear.media.voice.silero import SileroModel
from lookhear.media.voice.stretches import FILE_CONFIG, speech_stretches
from lookhear.media.voice.vad import VadConfig

T = TypeVar("T")

# Decoded and waiting for the engine; more wait undecoded. An hour of audio is 230 MB.
FILES_AT_ONCE = 4
GOODBYE_SECONDS = 2.0  # how long a shutdown waits for its sessions
LAG_INTERVAL = 0.05  # seconds between two looks at the event loop


class Engine(Protocol):
    """What the gateway needs of `engine.client.client.EngineClient`."""

    @property
    def states(self) -> list[EngineState]:
        """Tells how each engine is, in the order of the models."""

    @property
    def models(self) -> list[ModelCard]:
        """Lists the cards of the models that were loaded, the default first."""

    @property
    def stats(self) -> dict[str, Pong]:
        """Holds what each engine last said of its work, by model."""

    def is_ready(self, model: str) -> bool:
        """Whether that model can be asked now."""

    def open_session(self, session: str, on_event: Callable[[Event], None]) -> None:
        """on_event hears on the event loop what the engine says to that session."""

    def use_model(self, session: str, model: str) -> None:
        """The engine of this model is the session's to lose from now on."""

    def send(self, message: Message) -> None:
        """To the engine of the message's session. Raises EngineUnavailable."""

    def close_session(self, session: str) -> None:
        """The engine forgets all that the session had."""

    async def transcribe_file(self, message: TranscribeFile) -> FileTranscribed:
        """Raises EngineRequestError and EngineUnavailable."""

    async def close(self) -> None:
        """Ends the engines."""


class OpenSession(Protocol):
    """What the services hold of a realtime session."""

    @property
    def ended(self) -> asyncio.Event:
        """Set when its socket is closed and its engine rows are free."""

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
    threads: ThreadPoolExecutor
    clock: Callable[[], float] = time.monotonic
    now: Callable[[], float] = time.time
    ids: Callable[[str], str] = field(default_factory=Ids)
    closing: bool = False
    file_slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(FILES_AT_ONCE))
    sessions: set[OpenSession] = field(default_factory=set)
    gathering: Gathering = field(default_factory=lambda: Gathering(LAG_INTERVAL))
    pictures: Pictures = field(init=False)
    vad: VadBatcher = field(init=False)

    def __post_init__(self) -> None:
        self.vad = VadBatcher(self.silero, self.threads)
        self.pictures = Pictures(self.config, Fetcher(self.in_thread), self.in_thread)

    def observe_lag(self, seconds: float) -> None:
        """How late the event loop was just now."""
        self.metrics.loop_lag.observe(seconds)
        self.gathering.observe(seconds)

    @property
    def takes_work(self) -> bool:
        """Whether some model can be asked now. None can until all have been loaded."""
        engine = self.engine
        return not self.closing and any(engine.is_ready(card.id) for card in engine.models)

    def check_ready(self, model: str | None = None) -> None:
        """Raises ApiError (503) unless that model can be asked now; for None, any."""
        if not (self.takes_work if model is None else self.engine.is_ready(model)):
            whose = "" if model is None else f" of {model}"
            message = f"the engine{whose} is not ready; try again"
            raise ApiError(503, message, code="engine_not_ready")

    async def in_thread(self, work: Callable[[], T]) -> T:
        """Run `work` in a media thread: the event loop must never wait for it. Who asks waits, and
        so does what it reads from: the threads' queue holds one piece of work of each."""
        return await asyncio.get_running_loop().run_in_executor(self.threads, work)

    async def speech(
        self, samples: NDArray[np.float32], config: VadConfig = FILE_CONFIG
    ) -> list[tuple[int, int]]:
        """Where somebody speaks in a recording: see `speech_stretches`."""
        return await self.in_thread(lambda: speech_stretches(self.silero, samples, config))

    async def close_sessions(self) -> None:
        """Say goodbye (1001) to every session and wait until they are gone."""
        self.closing = True
        sessions = list(self.sessions)
        for session in sessions:
            session.shut_down()
        try:
            async with asyncio.timeout(GOODBYE_SECONDS):
                await asyncio.gather(*(session.ended.wait() for session in sessions))
        except TimeoutError:
            pass  # a client that does not read hears no goodbye


def served(name: str | None, engine: Engine, ability: str | None = None) -> ModelCard:
    """The card of a served model that has the ability; for None the first of those.

    Raises ApiError: 404 if there is no such model, 400 if it cannot do that.
    """
    cards = engine.models
    able = [card for card in cards if ability is None or card.can(ability)]
    for card in able:
        if name is None or card.id == name:
            return card
    if name is None or any(card.id == name for card in cards):
        can = f"can {ability} ({', '.join(repr(card.id) for card in able) or 'none is served'})"
        got = "none" if name is None else repr(name)
        raise wrong("model", f"one that {can}", got, "unsupported_model")
    known = ", ".join(repr(card.id) for card in cards)
    message = f"model: expected a served model ({known}), got {name!r}"
    raise ApiError(404, message, code="model_not_found", param="model")


def services(connection: HTTPConnection) -> Services:
    """The services of the app that serves this connection."""
    return cast(Services, connection.app.state.services)
