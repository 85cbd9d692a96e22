"""What a live command does about signals, also where there are fewer of them."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

from lookhear.commands.live import first_interrupt


async def test_where_a_loop_takes_no_signals_ctrl_c_is_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As on Windows."""

    def refuse(*_: object) -> None:
        raise NotImplementedError

    loop = asyncio.get_running_loop()
    monkeypatch.setattr(loop, "add_signal_handler", refuse)
    monkeypatch.setattr(loop, "remove_signal_handler", refuse)
    with first_interrupt(lambda: None):
        pass


def test_commands_are_there_without_the_signals_that_windows_lacks() -> None:
    lacking = "import signal; del signal.SIGHUP, signal.SIGKILL, signal.SIGUSR1; "
    program = lacking + "import lookhear.commands.main"
    subprocess.run([sys.executable, "-c", program], check=True)
