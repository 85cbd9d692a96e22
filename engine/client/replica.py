"""One engine process and the stream to it, seen from the gateway."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Callable

from lookhear.engine.client.errors import EngineUnavailable, WireError
from lookhear.engine.client.local_process import EngineProcess, LocalProcess
from lookhear.engine.client.outgoing import Outgoing
from lookhear.engine.client.ray_process import RayProcess
from lookhear.engine.client.state import labelled
from lookhear.engine.client.wire import PREFIX, Codec
from lookhear.engine.config import EngineConfig
from lookhear.engine.messages import EngineFailed, Event, Message, Ping, Pong, Ready, Starting

log = logging.getLogger(__name__)

# Bytes waiting for an engine that does not read. When full: refuse, with `EngineUnavailable`.
BACKLOG_LIMIT = 256 << 20
_FROM_NOTHING = Starting("starting a process", 0.0)
# An engine that is silent for longer than this, or than so many of its longest step so far, is
# taken for hung: nobody new is let in until it answers. It answers between two steps only.
PATIENCE_SECONDS, PATIENCE_STEPS = 5.0, 3.0


class Replica:
    """One engine process and the socket to it."""

    def __init__(
        self,
        config: EngineConfig,
        on_event: Callable[[Replica, Event], None],
        module: str = "lookhear.engine.process",
    ) -> None:
        """module: what the process runs, with the arguments of `engine.process`."""
        self.config = config
        self.number = 1  # among those of its model
        self.ready: Ready | None = None
        self.failure: EngineFailed | None = None
        self.starting = _FROM_NOTHING  # how far the start is
        self.status: int | None = None  # exit status of the last process
        self.last_pong = 0.0
        self.silence = 0.0  # seconds since it last said anything, counted in heartbeats
        self.longest_step = 0.0  # seconds, as it said last
        self.last_ping = 0  # number of the last one that was sent
        self._on_event = on_event
        self._codec = Codec()
        made = RayProcess if config.ray else LocalProcess
        self._process: EngineProcess = made(module)
        self._outgoing: Outgoing | None = None

    async def run(self, started: asyncio.Event) -> int:
        """Start the process and read its events until it ends; returns its exit status."""
        self.failure = None
        try:
            reader, writer = await self._process.start(self.config)
            self._outgoing = Outgoing(writer)
        except EngineUnavailable as error:
            self.failure = EngineFailed("model_not_loaded", str(error))
            started.set()
            return -1
        try:
            while True:
                prefix = await reader.readexactly(PREFIX.size)
                header_bytes, payload_bytes = PREFIX.unpack(prefix)
                header = await reader.readexactly(header_bytes)
                event = self._codec.decode(header, await reader.readexactly(payload_bytes))
                self.last_pong, self.silence = asyncio.get_running_loop().time(), 0.0
                if isinstance(event, Pong):
                    self.longest_step = event.longest_step
                if isinstance(event, Ready):
                    # What it chose is loaded again if it dies, and nothing else is chosen.
                    chosen = event.models[0].checkpoint or self.config.model
                    self.config = dataclasses.replace(self.config, model=chosen)
                    self.ready = event
                    self._on_event(self, event)
                    started.set()
                elif isinstance(event, EngineFailed):
                    self.failure = event
                else:
                    if isinstance(event, Starting):
                        self.starting = event
                    self._on_event(self, event)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        except WireError:
            log.exception("engine of %s does not speak our language", self.config.name)
            self.kill()
        finally:
            self.ready, self.starting = None, _FROM_NOTHING
            self.silence = self.longest_step = 0.0
            self._outgoing.close()
            self._outgoing = None
            self.status = await self._process.end()
        started.set()
        return self.status

    def send(self, message: Message) -> None:
        """Never waits. Raises EngineUnavailable if the process is not up, or BACKLOG_LIMIT is
        exceeded."""
        if self._outgoing is None or not self.is_running:
            raise EngineUnavailable(f"the engine of {self.config.name} is not running")
        if self._outgoing.backlog > BACKLOG_LIMIT:
            raise EngineUnavailable(f"the engine of {self.config.name} does not keep up")
        if isinstance(message, Ping):
            self.last_ping = message.number
        self._outgoing.send(self._codec.encode(message))

    def ping(self) -> None:
        """Ask how it is. Raises EngineUnavailable."""
        self.send(Ping(self.last_ping + 1))

    async def drain(self) -> None:
        """Until most of what was sent is with the engine, or it is gone."""
        if self._outgoing is not None:
            await self._outgoing.drain()

    @property
    def label(self) -> str:
        """Its model's name, and which of its engines it is."""
        return labelled(self.config.name, self.number, self.config.role == "encoder")

    @property
    def is_running(self) -> bool:
        """Whether what is sent may reach it."""
        outgoing = self._outgoing
        return outgoing is not None and self.ready is not None and not outgoing.is_closing

    @property
    def is_answering(self) -> bool:
        """Whether it is no longer silent than it may well be while it takes a step."""
        return self.silence <= max(PATIENCE_SECONDS, PATIENCE_STEPS * self.longest_step)

    @property
    def is_up(self) -> bool:
        """Whether it can be asked, and answers."""
        return self.ready is not None and self.is_answering

    def hang_up(self) -> None:
        """Close the socket; the process ends by itself (or is killed after some seconds)."""
        if self._outgoing is not None:
            self._outgoing.close()

    def kill(self) -> None:
        """End the process at once; if it is being started, as soon as it is there."""
        self._process.kill()

    @property
    def pid(self) -> int | None:
        """Of the last process that was started."""
        return self._process.pid
