"""What befalls a server and its connections, drawn from a seed."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import random
import signal
import wave
from collections import Counter
from collections.abc import Awaitable, Callable

import psutil

from lookhear.bench.chaos.proxy import Proxy
from lookhear.bench.processes import WORKER
from lookhear.client import AsyncClient
from lookhear.commands.private_server import ServerProcess
from lookhear.errors import LookhearError
from lookhear.sources.pcm import RATE

SHORTEST, LONGEST = 0.5, 3.0  # seconds of a freeze
_LOOK = 0.02  # seconds between two looks for the processes of a file
BETWEEN = 4.0  # seconds from one fault to the next, on average


class Chaos:
    """Faults of one server behind one proxy. tally: how many of each there were."""

    def __init__(self, server: ServerProcess, proxy: Proxy, draw: random.Random) -> None:
        self.tally: Counter[str] = Counter()
        self._server = server
        self._proxy = proxy
        self._draw = draw

    async def inflict(self, faults: int, names: list[str]) -> None:
        """So many, one after another. ServerFailed: the server did not come back."""
        for _ in range(faults):
            await asyncio.sleep(self._draw.uniform(0.0, 2 * BETWEEN))
            name = self._draw.choice(names)
            await FAULTS[name](self)
            self.tally[name] += 1

    async def cut_sockets(self) -> None:
        """All connections are reset."""
        self._proxy.cut()

    async def freeze_sockets(self) -> None:
        """Nothing passes, and then all of it."""
        self._proxy.freeze()
        await self._wait()
        self._proxy.thaw()

    async def cut_frozen_sockets(self) -> None:
        """Nothing passes, and what was under way is lost."""
        self._proxy.freeze()
        await self._wait()
        self._proxy.cut()
        self._proxy.thaw()

    async def kill_gateway(self) -> None:
        """And whoever watches over it starts another one."""
        os.kill(self._server.pid, signal.SIGKILL)
        await asyncio.to_thread(self._server.wait)
        await asyncio.to_thread(self._server.start)

    async def freeze_gateway(self) -> None:
        """It stands still, and goes on."""
        await self._freeze([self._server.pid])

    @property
    def workers(self) -> list[int]:
        """Process ids, if the gateway has several."""
        return self._children(WORKER)

    async def kill_worker(self) -> None:
        """One of several, which their parent starts again."""
        for pid in self._one_of(self.workers):
            _signal(pid, signal.SIGKILL)

    async def freeze_worker(self) -> None:
        """One of several stands still, and goes on."""
        await self._freeze(self._one_of(self.workers))

    async def kill_engine(self) -> None:
        """The gateway starts another one."""
        for pid in self._children("lookhear.engine.process"):
            _signal(pid, signal.SIGKILL)

    async def freeze_engine(self) -> None:
        """It stands still, and goes on."""
        await self._freeze(self._children("lookhear.engine.process"))

    async def kill_decoders(self) -> None:
        """The processes that decode files, as soon as there is a file for them."""
        client = AsyncClient(self._server.address.base_url)
        upload = asyncio.create_task(client.transcribe_file(_recording()))
        pids: list[int] = []
        while not (pids or upload.done()):
            pids = self._children("lookhear.gateway.decoding")
            await asyncio.sleep(_LOOK)
        for pid in pids:
            _signal(pid, signal.SIGKILL)
        with contextlib.suppress(LookhearError):  # its request is lost with them
            await upload

    async def _freeze(self, pids: list[int]) -> None:
        try:
            for pid in pids:
                _signal(pid, signal.SIGSTOP)
            await self._wait()
        finally:
            for pid in pids:
                _signal(pid, signal.SIGCONT)

    def _one_of(self, pids: list[int]) -> list[int]:
        """None if there are none just now."""
        return [self._draw.choice(pids)] if pids else []

    async def _wait(self) -> None:
        await asyncio.sleep(self._draw.uniform(SHORTEST, LONGEST))

    def _children(self, module: str) -> list[int]:
        found = []
        with contextlib.suppress(psutil.NoSuchProcess):
            for child in psutil.Process(self._server.pid).children(recursive=True):
                with contextlib.suppress(psutil.NoSuchProcess):
                    if any(module in word for word in child.cmdline()):
                        found.append(child.pid)
        return found


FAULTS: dict[str, Callable[[Chaos], Awaitable[None]]] = {
    "cut-sockets": Chaos.cut_sockets,
    "freeze-sockets": Chaos.freeze_sockets,
    "cut-frozen": Chaos.cut_frozen_sockets,
    "kill-engine": Chaos.kill_engine,
    "freeze-engine": Chaos.freeze_engine,
    "kill-gateway": Chaos.kill_gateway,
    "freeze-gateway": Chaos.freeze_gateway,
    "kill-decoders": Chaos.kill_decoders,
    "kill-worker": Chaos.kill_worker,
    "freeze-worker": Chaos.freeze_worker,
}
OF_WORKERS = ("kill-worker", "freeze-worker")  # with `--serve "--workers N"`


def _recording() -> bytes:
    """A minute of silence, as a WAV file: it is decoded, and costs the engine nothing."""
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(1)
        writer.setsampwidth(2)
        writer.setframerate(RATE)
        writer.writeframes(bytes(60 * RATE * 2))
    return file.getvalue()


def _signal(pid: int, which: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, which)
