"""A child ends with the program that started it, however that is told to end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

PROGRAM = """
import sys, time
from lookhear.commands.private_server import ChildServer

class Sleeping(ChildServer):
    def _answers(self):
        return True

with Sleeping("it", [sys.executable, "-c", "import time; time.sleep(600)"], start_seconds=9) as it:
    print(it.pid, flush=True)
    time.sleep(600)
"""
LIMIT = 30.0


def is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_nothing_is_left(number: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as program:
        assert program.stdout is not None
        child = int(program.stdout.readline())
        assert is_there(child)
        program.send_signal(number)
        assert program.wait(LIMIT) in (128 + number, -number)
    deadline = time.monotonic() + LIMIT
    while is_there(child):
        assert time.monotonic() < deadline
        time.sleep(0.01)
