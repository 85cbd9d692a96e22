"""The parent of several gateway processes on one port: it accepts their connections, starts again
who dies, and ends them together.

It accepts and they do not: a WebSocket stays where it begins, for hours, so who gets it is decided
with a look at what each has to do. A socket that all of them accept from gives a burst to whoever
wakes first, and one socket each (SO_REUSEPORT) deals by chance, also to one that hangs.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import pickle
import signal
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from lookhear.engine.config import EngineConfig
from lookhear.gateway.config import GatewayConfig
from lookhear.gateway.credentials import Credentials, read_again, read_credentials
from lookhear.gateway.services.siblings import Siblings
from lookhear.gateway.sockets.handshakes import BACKLOG, PAUSE
from lookhear.gateway.telemetry.log import log_event
from lookhear.gateway.telemetry.metrics import FOLDER_VARIABLE, worker_ended
from lookhear.gateway.workers.control import Control, Message, pair
from lookhear.gateway.workers.members import (
    DOWN,
    READY,
    SILENCE_LIMIT,
    Deaths,
    Member,
    in_order,
)

log = logging.getLogger(__name__)

ACCEPTED_AT_ONCE = 64  # connections in one turn of the event loop
CONNECTION, STATES = "connection", "states"  # kinds of messages to a worker
WATCH_SECONDS = 1.0
FAILED = 1  # exit status


@dataclass(frozen=True, slots=True)
class Setup:
    """What a worker is told at its start. port: that its clients reach. greets: whether it tells
    the user how it loads, and that all are ready."""

    config: GatewayConfig
    engines: Sequence[EngineConfig]
    siblings: Siblings
    port: int
    log_level: str
    log_format: str
    greets: bool = False


class Supervisor:
    """setups: of the workers, in their order. module: what their processes run. on_ready: called
    once, when all are ready for the first time; on_end: when they are to end.

    Raises ConfigError: keys or certificate cannot be used."""

    def __init__(
        self,
        setups: Sequence[Setup],
        listening: socket.socket,
        folder: Path,
        module: str,
        *,
        is_reloadable: bool,
        on_ready: Callable[[], object],
        on_end: Callable[[], object],
    ) -> None:
        self._setups = setups
        self._listening = listening
        self._folder = folder
        self._module = module
        self._is_reloadable = is_reloadable
        self._on_ready = on_ready
        self._on_end = on_end
        self._members = [Member(setup.siblings.number) for setup in setups]
        self._controls: dict[int, Control] = {}
        self._processes: dict[int, asyncio.subprocess.Process] = {}
        self._credentials = read_credentials(setups[0].config)
        self._begun_with: dict[int, Credentials] = {}  # by each process
        self._connections = 0  # given to anybody
        self._is_accepting = False
        self._is_told = True  # each worker, how all are
        self._were_ready = False
        self._closing = asyncio.Event()
        self._first_is_ready = asyncio.Event()
        self._status = 0

    async def run(self) -> int:
        """Until all have ended; an exit status."""
        loop = asyncio.get_running_loop()
        for sig in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(sig, self._end, sig)
        if self._is_reloadable:
            loop.add_signal_handler(signal.SIGHUP, self._reload)
        self._listening.setblocking(False)
        self._listening.listen(BACKLOG)
        watching = loop.create_task(self._watch())
        try:
            await self._keep_all()
        finally:
            watching.cancel()
            self._hold()
            for sig in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                loop.remove_signal_handler(sig)
        return self._status

    async def _keep_all(self) -> None:
        """The first one loads its engines before the others do: what it fetched they find, and what
        it cannot do is told once."""
        first, *others = [
            self._keep(m, s) for m, s in zip(self._members, self._setups, strict=True)
        ]
        tasks = [asyncio.create_task(first)]
        is_ready = asyncio.create_task(self._first_is_ready.wait())
        await asyncio.wait([*tasks, is_ready], return_when=asyncio.FIRST_COMPLETED)
        is_ready.cancel()
        tasks += [asyncio.create_task(other) for other in others]
        await asyncio.gather(*tasks)

    # --- one worker's life -----------------------------------------------------------------------

    async def _keep(self, member: Member, setup: Setup) -> None:
        """Start it again as often as it dies, until all are to end."""
        clock, deaths = asyncio.get_running_loop().time, Deaths()
        while not self._closing.is_set():
            began = clock()
            try:
                process, ours = await self._start()
            except OSError as error:  # the machine is out of something: no fault of the worker's
                log.error("worker %d cannot be started: %s", member.number, error)
                if member.was_ready:
                    await self._wait(PAUSE)
                    continue
                status = FAILED
            else:
                status = await self._live(member, setup, process, ours)
            if self._closing.is_set():
                self._status = self._status or max(0, status)  # below 0: ended by a signal
                return
            if not member.was_ready:  # a wrong setting, of which it has told
                self._status = self._status or (status if status > 0 else FAILED)
                self._end(signal.SIGINT)
                return
            pause = deaths.after(clock() - began)
            if pause is None:
                log.error("worker %d ended with status %d again and again", member.number, status)
                self._status = FAILED
                self._end(signal.SIGTERM)
                return
            number = member.number
            log.error("worker %d ended with status %d; starting it again", number, status)
            await self._wait(pause)

    async def _wait(self, seconds: float) -> None:
        """No longer than until all are to end."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._closing.wait()

    async def _start(self) -> tuple[asyncio.subprocess.Process, socket.socket]:
        """A process, and the socket to it, which is the caller's to close. Raises OSError."""
        ours, theirs = pair()
        with contextlib.ExitStack() as unused, theirs:
            unused.enter_context(ours)
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", self._module, "--fd", str(theirs.fileno()),
                stdin=asyncio.subprocess.PIPE,
                pass_fds=[theirs.fileno()],
                env=self._environment(),
                start_new_session=True,  # signals of a terminal are ours to hand on
            )  # fmt: skip
            unused.pop_all()
        return process, ours

    async def _live(
        self, member: Member, setup: Setup, process: asyncio.subprocess.Process, ours: socket.socket
    ) -> int:
        """One process of that number, to its exit status."""
        number = member.number
        self._processes[number] = process
        control = Control(ours, lambda told, _: self._heard(member, told), lambda: None)
        self._controls[number] = control
        self._begun_with[number] = self._credentials
        siblings = replace(setup.siblings, credentials=self._credentials)
        greets = setup.greets and not self._were_ready
        told = replace(setup, siblings=siblings, greets=greets)
        assert process.stdin is not None
        with contextlib.suppress(ConnectionError):
            process.stdin.write(pickle.dumps(told))
            await process.stdin.drain()
        process.stdin.close()
        if self._closing.is_set():  # while it was being started
            process.kill()
        status = await process.wait()
        control.close()
        del self._processes[number], self._controls[number]
        member.ended()
        worker_ended(process.pid, self._folder / "metrics")
        self._tell_states()
        return status

    def _environment(self) -> Mapping[str, str]:
        """Ours; but systemd hears of the whole from us."""
        own = {name: value for name, value in os.environ.items() if name != "NOTIFY_SOCKET"}
        return own | {FOLDER_VARIABLE: str(self._folder / "metrics")}

    def _heard(self, member: Member, told: Message) -> None:
        """A worker's report."""
        before = member.status
        if before == DOWN and self._begun_with[member.number] != self._credentials:
            self._signal(member.number, signal.SIGHUP)  # which it would not have heard before
        member.said(told["status"], told["working"], told["received"], told["is_full"])
        if member.status != before:
            self._tell_states()
        if member.was_ready and member is self._members[0]:
            self._first_is_ready.set()
        if not self._were_ready and all(m.status == READY for m in self._members):
            self._were_ready = True
            self._on_ready()
        if not self._is_accepting:
            self._accept_on()

    def _tell_states(self) -> None:
        """Each is told how all of them are; who takes nothing now is told later."""
        states = {member.number: member.status for member in self._members}
        told = {"kind": STATES, "states": states}
        self._is_told = all([control.send(told) for control in self._controls.values()])

    async def _watch(self) -> None:
        """Tell what could not be told, and kill who has said nothing for long. That is counted in
        our own looks and not by the clock: if this process stood still, it is the one that has not
        listened."""
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            if not self._is_told:
                self._tell_states()
            for member in self._members:
                if member.status == DOWN:
                    continue
                member.silence += WATCH_SECONDS
                if member.silence > SILENCE_LIMIT and member.number in self._processes:
                    log.error("worker %d does not answer; killing it", member.number)
                    self._processes[member.number].kill()

    def _reload(self) -> None:
        """Each worker reads the files again, and whoever comes later begins with what is usable."""
        self._credentials = read_again(self._credentials, self._setups[0].config)
        self._signal_all(signal.SIGHUP)

    # --- the end ---------------------------------------------------------------------------------

    def _end(self, sig: int) -> None:
        """Each signal means to a worker what it means to a gateway that is alone."""
        if not self._closing.is_set():
            self._closing.set()
            self._on_end()
        self._signal_all(sig)

    def _signal_all(self, sig: int) -> None:
        states = {member.number: member.status for member in self._members}
        for number in self._processes:
            if states[number] != DOWN:
                self._signal(number, sig)
            elif self._closing.is_set():  # it does not listen yet, and has nothing
                self._signal(number, signal.SIGKILL)

    def _signal(self, number: int, sig: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._processes[number].send_signal(sig)

    # --- connections -----------------------------------------------------------------------------

    def _accept_on(self) -> None:
        self._is_accepting = True
        asyncio.get_running_loop().add_reader(self._listening.fileno(), self._accept)

    def _hold(self) -> None:
        """Accept nobody until a worker reports: the system keeps them for us."""
        self._is_accepting = False
        asyncio.get_running_loop().remove_reader(self._listening.fileno())

    def _accept(self) -> None:
        for _ in range(ACCEPTED_AT_ONCE):
            if all(member.status == DOWN for member in self._members):
                self._hold()
                return
            try:
                connection, _ = self._listening.accept()
            except (BlockingIOError, InterruptedError):
                return
            except ConnectionError:  # it went before we came
                continue
            except OSError as error:
                log.error("cannot accept connections: %s", error)
                self._hold()
                asyncio.get_running_loop().call_later(PAUSE, self._accept_on)
                return
            with connection:
                if connection.family in (socket.AF_INET, socket.AF_INET6):
                    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if not any(self._give(m, connection) for m in in_order(self._members)):
                    log_event("connection.dropped", level=logging.WARNING)

    def _give(self, member: Member, connection: socket.socket) -> bool:
        """Whether it took it."""
        control = self._controls.get(member.number)
        if control is None or not control.send({"kind": CONNECTION}, connection):
            return False
        self._connections += 1
        member.given, member.latest = member.given + 1, self._connections
        return True
