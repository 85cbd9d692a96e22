"""A private server: `lookhear serve` as a child, watched until it is ready, ended with us, also by
SIGTERM, when the terminal is closed and, on Linux, where we are killed."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Self

from lookhear.errors import ConnectionFailed, LookhearError, ProtocolError, ServerError
from lookhear.terminal.progress import Report
from lookhear.transport.address import Server

_POLL_SECONDS = 0.1
_WAIT_SECONDS = 1.0
# What ends a program that does not handle it: nobody would end the child. Windows lacks one.
_ENDINGS = [number for number in signal.Signals if number.name in ("SIGTERM", "SIGHUP")]
_OUR_PORTS = range(20_000, 32_000)  # below those that systems choose from
# Settings that are of a server for others: where it listens, who may come, what its models are
# called. What may be a list of keys for it is one key to us, and we would know none of a file. How
# many engines there are follows the lag that is bounded, and for one person none is.
_NOT_OURS = [
    f"LOOKHEAR_{name}"
    for name in (
        "CONFIG", "SSL_CERTFILE", "SSL_KEYFILE", "API_KEY", "API_KEY_FILE",
        "SERVED_NAME", "ALIAS", "WORKERS", "ENCODERS", "MAX_REPLICAS",
    )
]  # fmt: skip
MODEL_VARIABLE = "LOOKHEAR_MODEL"  # what is served where no argument names a model
_SERVER_PACKAGES = ("starlette", "uvicorn", "torch")  # what `lookhear[server]` brings
# What whoever has no server needs. Windows lacks what keeps processes apart.
NEEDS_SERVER = 'pip install "lookhear[server]"' if sys.platform != "win32" else "Linux or macOS"


class ServerFailed(LookhearError):
    """The child did not start; the message ends with the last lines it printed."""


def server_installed() -> bool:
    """Whether `lookhear[server]` is here. Finds the packages without importing them."""
    here = [importlib.util.find_spec(name) is not None for name in _SERVER_PACKAGES]
    return sys.platform != "win32" and all(here)


def free_port(wanted: int = 0) -> int:
    """`wanted` if nobody listens there, else one that is free, and that the system gives to nobody
    who asks for any: until it is listened on it stays free."""
    wishes = [wanted] if wanted else []
    for port in (*wishes, *random.sample(_OUR_PORTS, 50), 0):
        with socket.socket() as probe:
            # As servers do: a port whose last owner has just closed counts as free.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                probe.bind(("127.0.0.1", port))
                return int(probe.getsockname()[1])
    raise ServerFailed("no free port on 127.0.0.1")


def loading_stage(body: bytes) -> tuple[str, float | None]:
    """What a server says under `/ready` that it is doing, for the first model not ready yet, and
    the share done."""
    try:
        models = json.loads(body)["models"]
        model = next(model for model in models if model["state"] != "ready")
        stage, share, name = str(model["stage"]), float(model["progress"]), model["name"]
    except (ValueError, KeyError, TypeError, StopIteration):
        return "starting the server", None
    if len(models) > 1 and not stage.endswith(f" {name}"):
        stage = f"{name}: {stage}"
    return stage, share or None


def is_loaded(body: bytes) -> bool:
    """Whether a server that is ready says under `/ready` that no engine of it is being loaded."""
    try:
        return all(model["state"] != "loading" for model in json.loads(body)["models"])
    except (ValueError, KeyError, TypeError):
        return True  # another release


def is_running(server: Server) -> bool:
    """Whether a server with our API answers there."""
    try:
        listing = server.get_json("/v1/models", timeout=2.0)
    except (ConnectionFailed, ProtocolError):
        return False
    except ServerError as error:
        return error.code is not None  # it speaks our language, if only to say no
    return isinstance(listing, dict) and "data" in listing


class ChildServer(ABC):
    """A server in a child process, watched until it answers and ended with us: use `with`.

    name: in messages. command: the child's arguments, its program first. environment: its
    variables, None for ours. start_seconds: how long it may take to answer.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        start_seconds: float,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.command = list(command)
        self._name = name
        self._environment = environment
        self._start_seconds = start_seconds
        try:
            self._log = tempfile.TemporaryFile()  # noqa: SIM115 (lives as long as the child)
        except OSError as error:
            raise ServerFailed(f"no folder for temporary files: {error.strerror}") from error
        self._child: subprocess.Popen[bytes] | None = None
        self._handled: list[signal.Signals] = []

    @property
    def pid(self) -> int:
        """The child's process id. It must have been started."""
        assert self._child is not None, "not started"
        return self._child.pid

    def start(self) -> None:
        """Returns when it answers. ServerFailed."""
        self._child = self._launch()
        deadline = time.monotonic() + self._start_seconds
        while not self._answers():
            status = self._child.poll()
            if status is not None:
                raise ServerFailed(f"{self._name} ended with status {status}:\n{self.log_tail()}")
            if time.monotonic() > deadline:
                raise ServerFailed(
                    f"{self._name} does not answer after {self._start_seconds:.0f} s:\n"
                    f"{self.log_tail()}"
                )
            time.sleep(_POLL_SECONDS)

    def _launch(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self._begun(),
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            env=self._environment,
            start_new_session=True,  # Ctrl-C is ours to handle: the child is ended in order
        )

    def _begun(self) -> list[str]:
        """The child's arguments when it is started, by this thread."""
        return self.command

    @abstractmethod
    def _answers(self) -> bool:
        """Whether it is ready; asked until it is. ServerFailed if it never will be."""

    def stop(self, seconds: float = 10.0) -> None:
        """End the child and wait for it; kill it if it takes longer than `seconds`, and in any case
        what it started and left behind."""
        if self._child is None:
            return
        if self._child.poll() is None:
            self._child.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._child.wait(seconds)
        with contextlib.suppress(ProcessLookupError, PermissionError):  # nobody is left
            os.killpg(self._child.pid, signal.SIGKILL)
        self._child.wait()

    def wait(self) -> int:
        """Wait until the child ends by itself; its exit status."""
        assert self._child is not None, "not started"
        # In slices: a signal that comes just before the system begins to wait ends no wait.
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                return self._child.wait(_WAIT_SECONDS)

    @property
    def log(self) -> str:
        """Everything that the child printed."""
        # Without a seek: the child writes on from where the file stands, which both share.
        descriptor = self._log.fileno()
        printed = os.pread(descriptor, os.fstat(descriptor).st_size, 0)
        return printed.decode("utf-8", "replace")

    def log_tail(self, lines: int = 15) -> str:
        """The last lines of it."""
        return "\n".join(self.log.rstrip().splitlines()[-lines:])

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._handled = [n for n in _ENDINGS if signal.getsignal(n) is signal.SIG_DFL]
        for number in self._handled:
            signal.signal(number, _end_in_order)
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._log.close()
        for number in self._handled:
            signal.signal(number, signal.SIG_DFL)


def _end_in_order(number: int, _: Any) -> None:
    raise SystemExit(128 + number)


class ServerProcess(ChildServer):
    """`with ServerProcess(port=0, arguments=[...]) as server:` gives a server that is ready.

    arguments: for `lookhear serve`. on_progress: told while it starts. start_seconds: how long
    that may take; a model that must be downloaded first takes its time. usual_model: what it serves
    where the arguments name none; None: what `lookhear serve` takes.
    """

    def __init__(
        self,
        port: int = 0,
        arguments: Sequence[str] = (),
        on_progress: Report = lambda stage, share: None,
        start_seconds: float = 3600.0,
        usual_model: str | None = None,
    ) -> None:
        self.port = port or free_port()
        self.address = Server(f"http://127.0.0.1:{self.port}")
        self._on_progress = on_progress
        command = [sys.executable, "-m", "lookhear", "serve", "--host", "127.0.0.1"]
        # Whoever ends it is the one who used it: nobody is to be waited for.
        command += ["--port", str(self.port), "--drain-seconds", "0"]
        # Its last lines are for a person, if it fails.
        command += ["--log-format", "text", *arguments]
        environment = {k: v for k, v in os.environ.items() if k not in _NOT_OURS}
        if usual_model is not None:
            environment[MODEL_VARIABLE] = usual_model
        super().__init__(
            "the server", command, start_seconds=start_seconds, environment=environment
        )

    def _begun(self) -> list[str]:
        """It is told to end with us though we be killed; but the system counts a thread for its
        program, and only the first one lasts as long."""
        if threading.current_thread() is not threading.main_thread():
            return self.command
        told = ["lookhear.commands.ended_with_us", str(os.getpid())]
        place = self.command.index("serve")
        return [sys.executable, "-m", *told, *self.command[place:]]

    def _answers(self) -> bool:
        try:
            status, body = self.address.exchange("/ready", timeout=5.0)
        except ConnectionFailed:
            self._on_progress("starting the server", None)
            return False
        # It is ready with the first engine of each model; here none is to be loading beside them.
        is_whole = status == 200 and is_loaded(body)
        if not is_whole:
            self._on_progress(*loading_stage(body))
        return is_whole
