"""The process that decoders are copies of: it has loaded the libraries, and forks when asked.

Run by `gateway.decoding.crew` as `python -m lookhear.gateway.decoding.nursery`. A fork takes
milliseconds where a start takes half a second, so a decoder that had to be killed costs little; and
only the parent of a process can kill it without ever meeting another that got its number.
One thread, so that what is forked is whole. Ends, and its decoders with it, when the gateway hangs
up.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import gc
import importlib
import os
import select
import signal
import socket
import struct
from collections.abc import Mapping
from typing import Any

from lookhear.gateway.decoding.decoder import Limits, serve
from lookhear.gateway.decoding.jobs import Job

PR_SET_PDEATHSIG = 1
MESSAGE = struct.Struct("!cIi")  # what, number of the decoder, and a value
FORK, KILL = b"F", b"K"  # from the gateway; FORK with the decoder's end of a socket
BORN, ENDED = b"B", b"E"  # to the gateway: with the process id; with the exit status, or -signal


class Nursery:
    """gateway: the socket on which decoders are ordered."""

    def __init__(self, gateway: socket.socket, jobs: Mapping[str, Job], limits: Limits) -> None:
        self._gateway = gateway
        self._jobs = jobs
        self._limits = limits
        self._children: dict[int, int] = {}  # number by process id

    def run(self) -> None:
        """Until the gateway hangs up."""
        woken, wakes = socket.socketpair()
        with woken, wakes:
            for end in (woken, wakes):
                end.setblocking(False)
            signal.signal(signal.SIGCHLD, lambda *_: None)
            signal.set_wakeup_fd(wakes.fileno())
            try:
                while True:
                    ready, _, _ = select.select([self._gateway, woken], [], [])
                    if woken in ready:
                        woken.recv(4096)
                        self._reap()
                    if self._gateway in ready and not self._obey():
                        return
            except (BrokenPipeError, ConnectionResetError):
                return
            finally:
                for pid in self._children:
                    os.kill(pid, signal.SIGKILL)
                for pid in self._children:
                    os.waitpid(pid, 0)

    def _obey(self) -> bool:
        """One message. False if there will be no more."""
        data, descriptors, *_ = socket.recv_fds(self._gateway, MESSAGE.size, 1)
        if len(data) < MESSAGE.size:
            return False
        kind, number, _ = MESSAGE.unpack(data)
        if kind == FORK:
            self._fork(number, descriptors[0])
        else:
            for pid, known in self._children.items():
                if known == number:  # not waited for yet, so the id is still its own
                    os.kill(pid, signal.SIGKILL)
        return True

    def _fork(self, number: int, descriptor: int) -> None:
        own = os.getpid()
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                _end_with(own)
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                self._gateway.close()
                with socket.socket(fileno=descriptor) as connection:
                    serve(connection, self._jobs, self._limits)
                status = 0
            finally:
                os._exit(status)  # nothing of the nursery's is to be cleaned up here
        os.close(descriptor)
        self._children[pid] = number
        self._tell(BORN, number, pid)

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                self._tell(ENDED, self._children.pop(pid), os.waitstatus_to_exitcode(status))

    def _tell(self, kind: bytes, number: int, value: int) -> None:
        self._gateway.sendall(MESSAGE.pack(kind, number, value))


def _end_with(parent: int) -> None:
    """Should somebody kill the nursery, its decoders shall not go on by themselves. Linux only."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it was killed before that could be asked for
        os._exit(1)


def main(arguments: list[str] | None = None) -> None:
    """Load what decoders need, then serve."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--fd", type=int, required=True)
    parser.add_argument("--jobs", required=True, help="a module with a class Jobs")
    parser.add_argument("--memory-bytes", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    options = parser.parse_args(arguments)
    # A stop of the whole group is the gateway's to handle: it lets its clients finish first.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    with contextlib.suppress(OSError), open("/proc/self/autogroup", "w") as own:
        own.write("5")  # where each session has a share of its own, `nice` counts inside it only
    jobs: Any = importlib.import_module(options.jobs).Jobs()
    gc.collect()
    gc.freeze()  # so that decoders go on sharing it
    limits = Limits(options.memory_bytes, options.seconds)
    with socket.socket(fileno=options.fd) as gateway:
        Nursery(gateway, jobs.by_name, limits).run()


if __name__ == "__main__":
    main()
