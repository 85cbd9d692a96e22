"""The collector while a gateway runs: the timer finds cycles, and at the end all is undone."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest

from lookhear.gateway.app.garbage import MUCH, THRESHOLDS, tended

pytestmark = pytest.mark.usefixtures("left_alone_again")


class Session:
    """Something that refers to itself."""

    def __init__(self) -> None:
        self.me = self


async def test_what_refers_to_itself_is_found_by_the_timer() -> None:
    loop, gone = asyncio.get_running_loop(), asyncio.Event()
    with tended(loop, full_every=0.01):
        weakref.finalize(Session(), gone.set)
        async with asyncio.timeout(60):
            await gone.wait()


async def test_memory_of_much_garbage_goes_back() -> None:
    loop, trimmed = asyncio.get_running_loop(), asyncio.Event()
    with tended(loop, full_every=0.01, trim=lambda: loop.call_soon_threadsafe(trimmed.set)):
        sessions = [Session() for _ in range(MUCH)]
        gc.collect()  # they are old, as those of a flood that lasts
        sessions.clear()
        async with asyncio.timeout(60):
            await trimmed.wait()


@pytest.mark.parametrize("had_frozen", [False, True])
async def test_the_settings_are_those_of_before_afterwards(
    had_frozen: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that was told before to leave alone what it had loaded goes on doing so."""
    monkeypatch.setattr(gc, "collect", lambda: 0)  # of all that the tests have loaded: a second
    gc.freeze() if had_frozen else gc.unfreeze()
    before, frozen = gc.get_threshold(), gc.get_freeze_count()
    with tended(asyncio.get_running_loop()):
        assert gc.get_threshold() == THRESHOLDS
        assert gc.get_freeze_count() > frozen
    assert gc.get_threshold() == before
    assert (gc.get_freeze_count() > 0) == had_frozen
