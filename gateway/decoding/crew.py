"""The gateway's side of the decoders' processes: orders them, asks them, hears of their end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import Sequence

from lookhear.gateway.decoding.decoder import DO, Limits
from lookhear.gateway.decoding.nursery import BORN, ENDED, FORK, KILL, MESSAGE
from lookhear.gateway.decoding.parcel import Array, Header, unpack

NURSERY = "lookhear.gateway.decoding.nursery"
JOBS = "lookhear.gateway.decoding.jobs"
PATIENCE = 10  # times its processor time a job may take: others may need the processor more
LOST = 256  # instead of an exit status: nobody is left to tell it
# What a decoder needs of our environment; keys and tokens in it are not for it.
INHERITED = ("PATH", "PYTHON", "LD_", "DYLD_", "LANG", "LC_", "TMPDIR", "VIRTUAL_ENV")
ALONE = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


class DecoderEnded(Exception):
    """A decoder ended over its job. status: of its exit, minus the signal, or LOST."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class Decoder:
    """One decoder. pid: once it is known; 0 before that."""

    def __init__(self, number: int, connection: socket.socket) -> None:
        self.number = number
        self.pid = 0
        self.ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._connection = connection
        self._asked = False

    async def ask(self, job: int) -> int:
        """job: the descriptor of a parcel -> that of the answer, the caller's to close. Raises
        DecoderEnded. Who is cancelled has to kill it: it goes on."""
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[None] = loop.create_future()
        connection = self._connection

        def wake(_: asyncio.Future[int]) -> None:
            _wake(answered)

        self.ended.add_done_callback(wake)
        self._asked = True
        loop.add_reader(connection, _wake, answered)
        try:
            socket.send_fds(connection, [DO], [job])
            await answered
            _, descriptors, *_ = socket.recv_fds(connection, 1, 1)
        except (ConnectionError, BlockingIOError):  # it ended, with or without a word
            descriptors = []
        finally:
            loop.remove_reader(connection)
            self.ended.remove_done_callback(wake)  # it may have a million jobs
            self._asked = False
        if not descriptors:
            self.hang_up()
            raise DecoderEnded(await self.ended)
        os.set_inheritable(descriptors[0], False)
        return descriptors[0]

    def hang_up(self) -> None:
        """It ends when it has nothing to do."""
        self._connection.close()

    def lost(self, status: int) -> None:
        """It is gone."""
        if not self.ended.done():
            self.ended.set_result(status)
        if not self._asked:  # else its answer may still lie in the socket
            self.hang_up()


class Crew:
    """Starts with the first decoder that is wanted. jobs: the module of what decoders can do."""

    def __init__(self, limits: Limits, jobs: str = JOBS) -> None:
        self.limits = limits
        self._options = [f"--memory-bytes={limits.memory_bytes}", f"--seconds={limits.seconds}"]
        self._options.append(f"--jobs={jobs}")
        self._starting = asyncio.Lock()
        self._nursery: _Nursery | None = None
        self._numbers = 0

    @property
    def decoders(self) -> list[Decoder]:
        """All that have not ended."""
        return [] if self._nursery is None else list(self._nursery.decoders.values())

    async def hire(self) -> Decoder:
        """A new decoder. Raises OSError if no process can be started."""
        async with self._starting:
            if self._nursery is not None and self._nursery.gone:
                await self._nursery.close()
                self._nursery = None
            if self._nursery is None:
                self._nursery = await _Nursery.start(self._options)
        self._numbers += 1
        return self._nursery.fork(self._numbers)

    async def ask(self, decoder: Decoder, job: int) -> tuple[Header, list[Array]]:
        """job: the descriptor of a parcel -> what is answered. Whoever is cancelled takes the
        decoder with them. Raises DecoderEnded, TimeoutError and ParcelError."""
        try:
            async with asyncio.timeout(self.limits.seconds * PATIENCE):
                answer = await decoder.ask(job)
            try:
                return unpack(answer)
            finally:
                os.close(answer)
        except BaseException:
            self.kill(decoder)
            raise

    def kill(self, decoder: Decoder) -> None:
        """At once, whatever it is doing."""
        decoder.hang_up()
        if self._nursery is not None:
            self._nursery.kill(decoder)

    async def close(self) -> None:
        """Ends all; whoever waits for one hears that it ended."""
        if self._nursery is not None:
            await self._nursery.close()


class _Nursery:
    """One run of the nursery's process."""

    def __init__(self, control: socket.socket, process: asyncio.subprocess.Process) -> None:
        self.decoders: dict[int, Decoder] = {}
        self.gone = False
        self._control = control
        self._process = process
        self._ending: asyncio.Task[int] | None = None
        asyncio.get_running_loop().add_reader(control, self._hear)

    @staticmethod
    async def start(options: Sequence[str]) -> _Nursery:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        with theirs, contextlib.ExitStack() as abandoned:
            abandoned.enter_context(ours)
            ours.setblocking(False)
            process = await asyncio.create_subprocess_exec(
                *[sys.executable, "-m", NURSERY, f"--fd={theirs.fileno()}", *options],
                stdin=asyncio.subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # as the engine: it ends with its socket, not by Ctrl-C
                env={k: v for k, v in os.environ.items() if k.startswith(INHERITED)} | ALONE,
            )
            abandoned.pop_all()
        return _Nursery(ours, process)

    def fork(self, number: int) -> Decoder:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        with theirs:
            ours.setblocking(False)
            decoder = self.decoders[number] = Decoder(number, ours)
            message = MESSAGE.pack(FORK, number, 0)
            try:
                socket.send_fds(self._control, [message], [theirs.fileno()])
            except OSError:
                self._give_up()
        return decoder

    def kill(self, decoder: Decoder) -> None:
        if not self.gone and decoder.number in self.decoders:
            try:
                self._control.send(MESSAGE.pack(KILL, decoder.number, 0))
            except OSError:
                self._give_up()

    async def close(self) -> None:
        self._lost()
        assert self._ending is not None
        await self._ending

    def _hear(self) -> None:
        try:
            data = self._control.recv(MESSAGE.size)
        except BlockingIOError:
            return
        except ConnectionError:
            data = b""
        if len(data) < MESSAGE.size:
            self._lost()
            return
        kind, number, value = MESSAGE.unpack(data)
        if kind == BORN and number in self.decoders:
            self.decoders[number].pid = value
        elif kind == ENDED:
            self.decoders.pop(number).lost(value)

    def _give_up(self) -> None:
        """It has gone, or has not read for long."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        self._lost()

    def _lost(self) -> None:
        """It hung up, or is to: its decoders are gone, or will be soon."""
        if self.gone:
            return
        self.gone = True
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._control)
        self._control.close()
        for decoder in self.decoders.values():
            decoder.lost(LOST)
        self.decoders.clear()
        self._ending = asyncio.create_task(self._process.wait())


def _wake(answered: asyncio.Future[None]) -> None:
    if not answered.done():
        answered.set_result(None)
