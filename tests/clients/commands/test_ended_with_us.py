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
    print(it.pid, flush=True)
    it.wait()
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
    ("number", "status"),
    [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, -signal.SIGINT)],
)
def test_nothing_is_left(number: signal.Signals, status: int) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
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
