"""A child ends with the program that started it, however that is told to end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from lookhear.commands.private_server import ServerProcess

# The child ends by itself, if all else fails.
PROGRAM = """
import sys
from lookhear.commands.private_server import ChildServer

WAITING = "import signal; signal.alarm(60); signal.pause()"

class Waiting(ChildServer):
    def _answers(self):
        return True

with Waiting("it", [sys.executable, "-c", WAITING], start_seconds=9) as it:
    prepare()
    print(it.pid, flush=True)
    it.wait()
"""
AS_USUAL = "def prepare(): pass\n"
# The system gives a signal to any thread that takes it: then it ends no call of the main one, as
# when it comes just before that begins.
ELSEWHERE = """
import signal, threading

def prepare():
    threading.Thread(target=signal.sigwait, args=([signal.SIGUSR1],), daemon=True).start()
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGHUP])
"""
# It waits for its child, which tells when it is to end with it.
KILLED = """
import os, subprocess, sys

CHILD = [
    "import os, signal, sys",
    "from lookhear.commands.ended_with_us import end_with",
    "end_with(int(sys.argv[1]))",
    "signal.signal(signal.SIGALRM, lambda *_: print('it went on'))",
    "print(flush=True)",
    "signal.alarm(30)",
    "signal.pause()",
]
subprocess.run([sys.executable, "-c", "; ".join(CHILD), str(os.getpid())])
"""
LIMIT = 30.0  # seconds for what takes a tenth of one


def is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def as_usual() -> None:
    """Whoever runs the tests may ignore some: `nohup`, a shell's `&`."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.mark.parametrize(
    ("number", "status", "prepared"),
    [
        (signal.SIGTERM, 143, AS_USUAL),
        (signal.SIGHUP, 129, AS_USUAL),
        (signal.SIGINT, -signal.SIGINT, AS_USUAL),
        (signal.SIGTERM, 143, ELSEWHERE),
        (signal.SIGHUP, 129, ELSEWHERE),
    ],
    ids=["TERM", "HUP", "INT", "TERM elsewhere", "HUP elsewhere"],
)
def test_nothing_is_left(number: signal.Signals, status: int, prepared: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", prepared + PROGRAM],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        preexec_fn=as_usual,
    ) as program:
        assert program.stdout is not None
        child = int(program.stdout.readline())
        assert is_there(child)
        program.send_signal(number)
        assert program.wait(LIMIT) == status
    assert not is_there(child), "it was waited for"


@pytest.mark.skipif(sys.platform != "linux", reason="other systems tell no child")
def test_a_server_of_ours_ends_where_we_are_killed() -> None:
    command = [sys.executable, "-c", KILLED]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == b"\n"
        program.kill()
        assert program.stdout.read() == b""  # until the child is gone, too


@pytest.mark.skipif(sys.platform != "linux", reason="other systems tell no child")
def test_a_child_whose_parent_is_gone_already_does_not_begin() -> None:
    program = "from lookhear.commands.ended_with_us import end_with; end_with(0); print()"
    ended = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE)
    assert (ended.returncode, ended.stdout) == (1, b"")


class Told(ServerProcess):
    """What would be started is told instead. told: with which arguments, by whichever thread."""

    def start(self) -> None:
        self.told = self._begun()


def test_a_private_server_is_told_whose_it_is() -> None:
    with Told() as process:
        told = process.told
    assert told[1:4] == ["-m", "lookhear.commands.ended_with_us", str(os.getpid())]
    assert told[4:] == process.command[3:]


def test_one_that_another_thread_starts_does_not_end_with_that() -> None:
    with Told() as process, ThreadPoolExecutor() as threads:
        threads.submit(process.start).result()
    assert process.told == process.command
    assert process.command[1:4] == ["-m", "lookhear", "serve"]
