"""A child ends with the program that started it, however that is told to end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

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
