"""What a live command does about signals, also where there are fewer of them."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import AsyncIterator

import pytest

from lookhear import AsyncClient, TurnCompleted
from lookhear.commands.live import first_interrupt, transcribe_live
from lookhear.sources.level_meter import LevelMeter
from lookhear.terminal.status_line import StatusLine
from lookhear.terminal.subtitles import FORMATS


async def test_where_a_loop_takes_no_signals_ctrl_c_finishes_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As on Windows."""

    def refuse(*_: object) -> None:
        raise NotImplementedError

    loop, finished = asyncio.get_running_loop(), asyncio.Event()
    monkeypatch.setattr(loop, "add_signal_handler", refuse)
    monkeypatch.setattr(loop, "remove_signal_handler", refuse)
    before = signal.getsignal(signal.SIGINT)
    with first_interrupt(finished.set):
        signal.raise_signal(signal.SIGINT)
        await finished.wait()
    assert signal.getsignal(signal.SIGINT) is before


async def test_the_second_ctrl_c_ends_what_holds_up_the_loop() -> None:
    finished: list[bool] = []
    with pytest.raises(KeyboardInterrupt), first_interrupt(lambda: finished.append(True)):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
    assert not finished


@pytest.mark.parametrize("form", ["srt", "vtt"])
@pytest.mark.parametrize("said", [1, 0])
async def test_what_was_said_before_ctrl_c_is_written(
    form: str, said: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    turns = [TurnCompleted("a", "One.", 0.0, 1.0)][:said]

    async def transcribe(*_: object, **__: object) -> AsyncIterator[TurnCompleted]:
        for turn in turns:
            yield turn
        raise asyncio.CancelledError

    async def nothing() -> AsyncIterator[bytes]:
        return
        yield b""

    monkeypatch.setattr(AsyncClient, "transcribe", transcribe)
    with pytest.raises(asyncio.CancelledError):
        await transcribe_live(
            AsyncClient("http://x"), nothing(), StatusLine(LevelMeter()), form=form
        )
    assert capsys.readouterr().out == (FORMATS[form](turns) if said else "")


def test_commands_are_there_without_the_signals_that_windows_lacks() -> None:
    lacking = "import signal; del signal.SIGHUP, signal.SIGKILL, signal.SIGUSR1; "
    program = lacking + "import lookhear.commands.main"
    subprocess.run([sys.executable, "-c", program], check=True)
