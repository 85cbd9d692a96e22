"""A private server: `lookhear serve` as a child, watched until ready, ended with us."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from types import TracebackType

from lookhear.address import Server
from lookhear.errors import ConnectionFailed, LookhearError, ServerError

Progress = Callable[[str, float | None], None]
"""Told what is going on and the share done, None if that is not known."""

_POLL_SECONDS = 0.1
_SERVER_PACKAGES = ("starlette", "uvicorn", "torch")  # what `lookhear[server]` brings


class ServerFailed(LookhearError):
    """The child did not start; the message ends with the last lines it printed."""


def server_installed() -> bool:
    """Whether `lookhear[server]` is here. Finds the packages without importing them."""
    return all(importlib.util.find_spec(name) is not None for name in _SERVER_PACKAGES)


def free_port(wanted: int = 0, host: str = "127.0.0.1") -> int:
    """`wanted` if nobody listens there, else a port that the system says is free."""
    for port in (wanted, 0):
        with socket.socket() as probe:
            # As servers do: a port whose last owner has just closed counts as free.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                probe.bind((host, port))
                return int(probe.getsockname()[1])
    raise ServerFailed(f"no free port on {host}")


def _loading(body: bytes) -> tuple[str, float | None]:
    """What a server says under `/ready` that it is doing, for the first model not ready yet."""
    try:
        models = json.loads(body)["models"]
        model = next(model for model in models if model["state"] != "ready")
        stage, share, name = str(model["stage"]), float(model["progress"]), model["name"]
    except (ValueError, KeyError, TypeError, StopIteration):
        return "starting the server", None
    if len(models) > 1 and not stage.endswith(f" {name}"):
        stage = f"{name}: {stage}"
    return stage, share or None


def is_running(server: Server) -> bool:
    """Whether a server with our API answers there."""
    try:
        listing = server.get_json("/v1/models", timeout=2.0)
    except (ConnectionFailed, ValueError):
        return False
    except ServerError as error:
        return error.code is not None  # it speaks our language, if only to say no
    return isinstance(listing, dict) and "data" in listing


class ServerProcess:
    """`with ServerProcess(port=0, arguments=[...]) as server:` gives a server that is ready.

    arguments: for `lookhear serve`. on_progress: told while it starts. start_seconds: how long
    that may take; a model that must be downloaded first takes its time.
    """

    def __init__(
        self,
        port: int = 0,
        arguments: Sequence[str] = (),
        on_progress: Progress = lambda stage, share: None,
        start_seconds: float = 3600.0,
    ) -> None:
        self.port = port or free_port()
        self.address = Server(f"http://127.0.0.1:{self.port}")
        self._arguments = list(arguments)
        self._on_progress = on_progress
        self._start_seconds = start_seconds
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 (lives as long as the child)
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._child is not None, "not started"
        return self._child.pid

    def start(self) -> None:
        """Returns when it is ready. ServerFailed."""
        command = [sys.executable, "-m", "lookhear", "serve", "--host", "127.0.0.1"]
        self._child = subprocess.Popen(
            [*command, "--port", str(self.port), *self._arguments],
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C is ours to handle: the child is ended in order
        )
        deadline = time.monotonic() + self._start_seconds
        while not self._ready():
            if self._child.poll() is not None:
                raise ServerFailed(
                    f"the server ended with status {self._child.returncode}:\n{self.log_tail()}"
                )
            if time.monotonic() > deadline:
                self.stop()
                raise ServerFailed(f"the server did not become ready:\n{self.log_tail()}")
            time.sleep(_POLL_SECONDS)

    def _ready(self) -> bool:
        try:
            status, body = self.address.exchange("/ready", timeout=5.0)
        except ConnectionFailed:
            self._on_progress("starting the server", None)
            return False
        if status != 200:
            self._on_progress(*_loading(body))
        return status == 200

    def stop(self, seconds: float = 10.0) -> None:
        """End the child and wait for it; kill it if it takes longer than `seconds`."""
        if self._child is not None and self._child.poll() is None:
            self._child.terminate()
            try:
                self._child.wait(seconds)
            except subprocess.TimeoutExpired:
                self._child.kill()
                self._child.wait()

    def wait(self) -> int:
        """Wait until the child ends by itself; its exit status."""
        assert self._child is not None, "not started"
        return self._child.wait()

    def log_tail(self, lines: int = 15) -> str:
        """The last lines that the child printed."""
        self._log.seek(0)
        text = self._log.read().decode("utf-8", "replace")
        return "\n".join(text.rstrip().splitlines()[-lines:])

    def __enter__(self) -> ServerProcess:
        try:
            self.start()
        except BaseException:
            self.stop()
            self._log.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
        self._log.close()
