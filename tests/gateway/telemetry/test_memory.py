"""After much was freed the C library is told to give it back, once."""

from __future__ import annotations

import asyncio
import sys

import pytest

from lookhear.gateway.telemetry import memory as module
from lookhear.gateway.telemetry.memory import LARGE, Memory, give_back


async def test_large_pieces_are_given_back_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WHILE", 0.001)
    monkeypatch.setattr(module, "EVERY", 0.002)
    loop = asyncio.get_running_loop()
    trimmed: asyncio.Queue[int] = asyncio.Queue()

    def trim() -> None:
        loop.call_soon_threadsafe(trimmed.put_nowait, 1)

    memory = Memory(trim)
    for _ in range(2):
        memory.freed(LARGE - 1)
        assert memory._timer is None
        for _ in range(3):
            memory.freed(1)
        await trimmed.get()
        assert trimmed.empty()


async def test_who_sends_much_all_the_time_is_not_made_to_wait_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "WHILE", 0.001)
    loop = asyncio.get_running_loop()
    done = asyncio.Event()

    def trim() -> None:
        loop.call_soon_threadsafe(done.set)

    memory = Memory(trim)
    memory.freed(LARGE)
    await done.wait()
    memory.freed(LARGE)
    assert memory._timer is not None
    assert memory._timer.when() > loop.time() + module.EVERY / 2
    memory.close()


async def test_nothing_is_done_after_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WHILE", 0.0)
    memory = Memory(lambda: pytest.fail("it is over"))
    memory.freed(LARGE)
    memory.close()
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a call of glibc's")
def test_what_was_freed_is_the_systems_again() -> None:
    def resident() -> int:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096

    # So many that they are the library's and not the system's, with one behind them that stays.
    pieces = [bytes(100_000) for _ in range(1000)]
    stays = bytes(100_000)
    for index, _ in enumerate(pieces):
        pieces[index] = b""
    before = resident()
    give_back()
    assert resident() <= before
    assert len(stays) == 100_000
