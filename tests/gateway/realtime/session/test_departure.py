"""When a session leaves a server that is going away, on the event loop's clock."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest

from lookhear.gateway.realtime.session import departure
from lookhear.gateway.realtime.session.departure import Departure


@dataclass
class Session:
    idle: bool = True
    resting: bool = True
    asked: int = 0  # whether it rests

    def __post_init__(self) -> None:
        self.left = asyncio.Event()

    def rests(self) -> bool:
        self.asked += 1
        return self.resting

    def departure(self) -> Departure:
        return Departure(lambda: self.idle, self.rests, self.left.set)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(departure, "QUIET_SECONDS", 0.01)


async def until(session: Session, asked: int) -> None:
    async with asyncio.timeout(60):
        while session.asked < asked:
            await asyncio.sleep(0)


async def test_who_has_nothing_under_way_leaves() -> None:
    session = Session()
    session.departure()
    assert not session.left.is_set()  # a word may just have begun
    async with asyncio.timeout(60):
        await session.left.wait()


async def test_who_has_leaves_when_that_is_over() -> None:
    session = Session(idle=False)
    leaving = session.departure()
    leaving.look()
    assert leaving._timer is None  # nobody looks at it again before something comes
    session.idle = True
    leaving.look()
    async with asyncio.timeout(60):
        await session.left.wait()


async def test_what_begins_in_the_quiet_ends_it() -> None:
    session = Session()
    leaving = session.departure()
    session.idle = False
    leaving.look()
    assert leaving._timer is None
    session.idle = True
    leaving.look()
    session.idle = False  # without a word: it is asked at the end, too
    async with asyncio.timeout(60):
        while leaving._timer is not None:
            await asyncio.sleep(0)
    assert not session.left.is_set() and session.asked == 0


async def test_frames_that_wait_are_worked_on_first() -> None:
    session = Session(resting=False)
    session.departure()
    await until(session, 3)
    assert not session.left.is_set()
    session.resting = True
    async with asyncio.timeout(60):
        await session.left.wait()


async def test_who_is_gone_does_not_leave() -> None:
    session = Session()
    leaving = session.departure()
    leaving.cancel()
    leaving.cancel()
    later = Session()
    later.departure()
    async with asyncio.timeout(60):
        await later.left.wait()
    assert not session.left.is_set()
