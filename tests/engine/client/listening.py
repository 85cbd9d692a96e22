"""Engines that only listen: no process, no model."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from lookhear.engine.client.client import EngineUnavailable
from lookhear.engine.client.replica import Replica
from lookhear.engine.config import EngineConfig
from lookhear.engine.messages import Event, Message, ModelCard, Ping, Ready


class Listening(Replica):
    """No process: ready when told to be, keeps what it was sent, ends when told to."""

    def __init__(
        self,
        config: EngineConfig,
        on_event: Callable[[Replica, Event], None],
        module: str = "lookhear.engine.process",
    ) -> None:
        super().__init__(config, on_event, module)
        self.got: list[Message] = []
        self.pings = self.runs = 0
        self.answers = True
        self._up, self._gone = asyncio.Event(), asyncio.Event()

    async def run(self, started: asyncio.Event) -> int:
        self.runs += 1
        up = asyncio.create_task(self._up.wait())
        gone = asyncio.create_task(self._gone.wait())
        await asyncio.wait({up, gone}, return_when=asyncio.FIRST_COMPLETED)
        if self._up.is_set():
            card = ModelCard(self.config.name, "whisper", [], 0, 0)
            self.ready = Ready([card], 1, "cpu", "float32")
            self.last_pong = asyncio.get_running_loop().time()
            self._on_event(self, self.ready)
            started.set()
        await gone
        up.cancel()
        self._up.clear()
        self._gone.clear()
        self.ready, self.status = None, -9
        started.set()
        return -9

    @property
    def is_running(self) -> bool:
        return self.ready is not None

    def tell(self, event: Event) -> None:
        self._on_event(self, event)

    def come_up(self) -> None:
        self._up.set()

    def send(self, message: Message) -> None:
        if self.ready is None:
            raise EngineUnavailable(self.config.name)
        if not isinstance(message, Ping):
            self.got.append(message)
            return
        self.last_ping = message.number
        self.pings += 1
        if self.answers:
            self.last_pong = asyncio.get_running_loop().time()

    def hang_up(self) -> None:
        self._gone.set()

    def kill(self) -> None:
        self._gone.set()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0)
