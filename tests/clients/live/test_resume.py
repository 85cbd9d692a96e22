"""The client comes back to the session that it was cut from, whatever was under way in it."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator

import pytest

from lookhear import AsyncClient, Reconnecting, Retry, SessionReady, TextDelta, TurnCompleted
from lookhear.bench.chaos.proxy import Proxy
from lookhear.gateway.config import GatewayConfig
from lookhear.live.events import Event
from tests.gateway.fake_engine import transcript
from tests.gateway.running import Running, running, tone

SECONDS = 20.0
QUICK = Retry(first=0.01, cap=0.05)


@pytest.fixture
async def gateway() -> AsyncIterator[Running]:
    async with running() as it:
        yield it


async def told(gateway: Running, seed: int, most: int) -> list[Event]:
    """All events of one transcription that is cut that many times at most, wherever it is."""
    draw = random.Random(seed)
    left, cuts = draw.randint(1, 4000), 0

    def passed(size: int) -> None:
        nonlocal left, cuts
        left -= size
        if left <= 0 and cuts < most:
            left, cuts = draw.randint(1, 4000), cuts + 1
            proxy.cut()

    async with Proxy(gateway.port, passed) as proxy:
        client = AsyncClient(f"http://127.0.0.1:{proxy.port}", retry=QUICK)
        source = iter([tone(SECONDS)])
        events = [event async for event in client.transcribe(source, turn_detection=None)]
    assert cuts
    return events


@pytest.mark.parametrize("seed", range(8))
async def test_one_session_over_many_connections(gateway: Running, seed: int) -> None:
    events = await told(gateway, seed, 12)
    # A cut before the session was agreed on begins another one, in which nothing was said yet.
    lost = [event for event in events if isinstance(event, Reconnecting)]
    assert not any(event.superseded or event.lost for event in lost)
    [turn] = [event for event in events if isinstance(event, TurnCompleted)]
    deltas = [event.text for event in events if isinstance(event, TextDelta)]
    assert turn.text == transcript(int(SECONDS * 16_000)) == "".join(deltas)
    assert len({event.session_id for event in events if isinstance(event, SessionReady)}) == 1


@pytest.mark.parametrize("seed", range(3))
async def test_where_it_was_not_kept_what_is_not_done_is_said_again(seed: int) -> None:
    async with running(GatewayConfig(port=0, resume_seconds=0.0)) as gateway:
        events = await told(gateway, seed, 4)
    [turn] = [event for event in events if isinstance(event, TurnCompleted)]
    assert turn.text == transcript(int(SECONDS * 16_000))


async def test_a_session_that_is_over_is_begun_anew() -> None:
    async with running(GatewayConfig(port=0, resume_seconds=1e-6)) as gateway:
        events = await told(gateway, 1, 4)
    [turn] = [event for event in events if isinstance(event, TurnCompleted)]
    assert turn.text == transcript(int(SECONDS * 16_000))
    assert any(event.superseded for event in events if isinstance(event, Reconnecting))
