"""What the routes of one gateway share."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeVar, cast

from starlette.requests import HTTPConnection

from engine.messages import Event, FileTranscribed, Message, ModelCard, Pong, TranscribeFile
from gateway.access import Access
from gateway.config import GatewayConfig
from gateway.ids import new_id
from gateway.metrics import Metrics
from media.vad import SileroModel

if TYPE_CHECKING:
    from gateway.realtime.session import RealtimeSession

T = TypeVar("T")

FILES_AT_ONCE = 4  # decoded and waiting for the engine; an hour of audio is 230 MB
GOODBYE_SECONDS = 2.0  # how long a shutdown waits for its sessions


class Engine(Protocol):
    """What the gateway needs of `engine.client.EngineClient`."""

    @property
    def ready(self) -> bool: ...

    @property
    def models(self) -> list[ModelCard]: ...

    @property
    def stats(self) -> dict[str, Pong]: ...

    def open_session(self, session: str, on_event: Callable[[Event], None]) -> None: ...

    def send(self, message: Message) -> None: ...

    def close_session(self, session: str) -> None: ...

    async def transcribe_file(self, message: TranscribeFile) -> FileTranscribed: ...

    async def close(self) -> None: ...


@dataclass(slots=True)
class Services:
    """engine: None while it is starting for the first time. clock: seconds, monotonic."""

    config: GatewayConfig
    access: Access
    metrics: Metrics
    silero: SileroModel
    threads: ThreadPoolExecutor
    clock: Callable[[], float] = time.monotonic
    ids: Callable[[str], str] = new_id
    engine: Engine | None = None
    closing: bool = False
    file_slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(FILES_AT_ONCE))
    sessions: set[RealtimeSession] = field(default_factory=set)

    @property
    def ready_engine(self) -> Engine | None:
        """The engine, if it can take work now."""
        engine = self.engine
        return engine if engine is not None and engine.ready and engine.models else None

    async def in_thread(self, work: Callable[[], T]) -> T:
        """Run `work` in a media thread: the event loop must never wait for it."""
        return await asyncio.get_running_loop().run_in_executor(self.threads, work)

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


def services(connection: HTTPConnection) -> Services:
    """The services of the app that serves this connection."""
    return cast(Services, connection.app.state.services)
