"""An engine's process on a node of a Ray cluster, and the actor that passes its frames on.

The engine is a child of the actor and not the actor itself, so that passing on takes no time from
its steps. Runs where lookhear is installed in the same release as the gateway.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
from collections.abc import Iterator

from lookhear.engine.client.local_process import END_SECONDS, command
from lookhear.engine.config import EngineConfig

CHUNK = 1 << 20  # bytes that are passed on at once, at most


class EngineActor:
    """Its methods are called in threads of their own: see `ray_process.GROUPS`."""

    def __init__(self, module: str, config: EngineConfig) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        with theirs:
            self._process = subprocess.Popen(
                command(module, theirs.fileno(), config),
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )

    def read(self) -> Iterator[bytes | int]:
        """The process id of this actor, then what the engine sends, then its exit status."""
        yield os.getpid()
        with contextlib.suppress(OSError):
            while chunk := self._socket.recv(CHUNK):
                yield chunk
        try:
            yield self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            yield self._process.wait()

    def write(self, data: bytes) -> None:
        """Waits while the engine does not read. To an engine that is gone, nothing."""
        with contextlib.suppress(OSError):
            self._socket.sendall(data)

    def hang_up(self) -> None:
        """The engine ends by itself."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def kill(self) -> None:
        """The engine and what it started, at once."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
