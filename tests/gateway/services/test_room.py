"""Who makes room for whom, when all sessions that may be are open."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest

from lookhear.gateway.config import GatewayConfig
from lookhear.gateway.services.services import GRACE, Services
from tests.gateway.running import running

MOST = 6


@dataclass(eq=False)
class Open:
    """A session as the services know it."""

    client: str
    silent_for: float
    away_for: float = 0.0
    gone: bool = False
    is_ending: bool = False
    id: str = ""
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    def give_way(self) -> None:
        self.gone = True
        self.ended.set()

    def drain(self, seconds: float) -> None:
        self.ended.set()

    depart = shut_down = lambda self: self.ended.set()


def full(services: Services, *sessions: Open) -> None:
    assert len(sessions) == MOST
    services.sessions.update(sessions)


@pytest.mark.parametrize(
    ("newcomer", "clients", "silent", "gone"),
    [
        ("new", "aaaaaa", [0.1, 0.3, 0.2, 0.1, 0.1, 0.1], 1),  # at once: it holds all
        ("new", "aaaabc", [0.1, 0.1, 0.2, 0.1, 4.0, 0.0], 2),  # b waits for its grace
        ("a", "aaaaaa", [0.1, 0.3, 0.2, 0.1, 0.1, 0.1], None),  # not for its own
        ("a", "aaaaaa", [0.1, GRACE, 0.2, 0.1, 0.1, 0.1], 1),
        ("new", "abcdef", [0.1, 0.3, 0.2, 0.1, 0.1, 0.1], None),  # nobody holds more than one
        ("new", "aaaaaa", [0.0] * 6, None),  # all of them speak
    ],
)
async def test_who_goes(newcomer: str, clients: str, silent: list[float], gone: int | None) -> None:
    async with running(GatewayConfig(port=0, max_sessions=MOST)) as gateway:
        sessions = [Open(*pair) for pair in zip(clients, silent, strict=True)]
        full(gateway.services, *sessions)
        assert gateway.services.has_room(newcomer) == (gone is not None)
        assert [n for n, session in enumerate(sessions) if session.gone] == (
            [] if gone is None else [gone]
        )
        for session in sessions:
            session.ended.set()


async def test_who_is_away_goes_first() -> None:
    async with running(GatewayConfig(port=0, max_sessions=MOST)) as gateway:
        away = {1: 2.0, 3: 9.0}
        sessions = [Open("abcdef"[n], GRACE + n, away.get(n, 0.0)) for n in range(MOST)]
        full(gateway.services, *sessions)
        for expected in (3, 1, 5):
            assert gateway.services.has_room("new")
            assert sessions[expected].gone
            gateway.services.sessions.add(Open("x", 0.0))
        for session in sessions:
            session.ended.set()


async def test_of_those_away_a_client_with_many_gives_way_first() -> None:
    async with running(GatewayConfig(port=0, max_sessions=MOST)) as gateway:
        away = [9.0, 1.0, 2.0, 3.0, 8.0, 0.0]
        sessions = [Open("abbbcd"[n], 0.0, away[n]) for n in range(MOST)]
        full(gateway.services, *sessions)
        for expected in (3, 2, 0, 4, 1):
            assert gateway.services.has_room("new")
            assert sessions[expected].gone
            gateway.services.sessions.add(Open("x", 0.0))
        assert not gateway.services.has_room("new")
        for session in sessions:
            session.ended.set()
