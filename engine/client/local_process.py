"""An engine's process on this machine, at the other end of a pair of sockets."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import os
import signal
import socket
import sys
from typing import Protocol

from lookhear.engine.config import EngineConfig

END_SECONDS = 5.0  # how long a process may take to end after its socket closed


class EngineProcess(Protocol):
    """Where an engine runs: how it is started, killed and heard of. One start after another."""

    async def start(
        self, config: EngineConfig
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """The engine's frames, and ours to it; the first end when the engine does. Raises OSError
        or EngineUnavailable if it cannot be started."""

    async def end(self) -> int:
        """After the streams have ended: wait for the process, kill it if that takes long. Returns
        its exit status."""

    def kill(self) -> None:
        """At once; if it is being started, as soon as it is there."""

    @property
    def pid(self) -> int | None:
        """Of the last process that was started, where it runs."""


class LocalProcess:
    """A child of this process. module: what it runs, with the arguments of `engine.process`."""

    def __init__(self, module: str) -> None:
        self._module = module
        self._process: asyncio.subprocess.Process | None = None
        self._killed = False

    async def start(
        self, config: EngineConfig
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Raises OSError: the machine is out of something."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self._killed = False
        with theirs, contextlib.ExitStack() as abandoned:
            abandoned.enter_context(ours)
            self._process = await asyncio.create_subprocess_exec(
                *command(self._module, theirs.fileno(), config),
                pass_fds=[theirs.fileno()],
                # Signals to the gateway's group (Ctrl-C, a supervisor's stop) are the gateway's to
                # handle: it says goodbye to its clients first. The engine ends with its socket.
                start_new_session=True,
            )
            abandoned.pop_all()
        if self._killed:  # while it was being started
            self._process.kill()
        return await asyncio.open_unix_connection(sock=ours)

    async def end(self) -> int:
        """It has `END_SECONDS` to end by itself."""
        assert self._process is not None
        if self._process.returncode is None:
            try:
                async with asyncio.timeout(END_SECONDS):
                    return await self._process.wait()
            except TimeoutError:
                self.kill()
        return await self._process.wait()

    def kill(self) -> None:
        """And what it started: a download, say. The process leads a group of its own."""
        self._killed = True
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    @property
    def pid(self) -> int | None:
        """Of the last child."""
        return self._process.pid if self._process is not None else None


def command(module: str, connection: int, config: EngineConfig) -> list[str]:
    """What starts an engine. connection: the number of its inherited socket."""
    settings = json.dumps(dataclasses.asdict(config))
    return [sys.executable, "-m", module, "--fd", str(connection), "--config", settings]
