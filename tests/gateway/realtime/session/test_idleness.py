"""Sessions that say nothing are told so and closed; others are left alone."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.exceptions import ConnectionClosed

from lookhear.engine.messages import LiveLoad
from lookhear.gateway.config import GatewayConfig
from lookhear.gateway.realtime.session.idleness import Idleness
from lookhear.gateway.realtime.session.lifetime import Lifetime
from lookhear.gateway.realtime.session.session import RealtimeSession
from lookhear.gateway.services.services import GRACE
from tests.gateway.fake_engine import FakeEngine, transcript
from tests.gateway.running import MANUAL, Client, Running, running, tone

USUAL, FIRST = 900.0, 60.0


@given(st.lists(st.tuples(st.sampled_from(["heard", "answered"]), st.floats(0, 500)), max_size=20))
def test_the_limit_counts_from_what_was_said_last(script: list[tuple[str, float]]) -> None:
    now, last = 0.0, None
    idleness = Idleness(FIRST, USUAL, now)
    for what, seconds in script:
        now += seconds
        if what == "heard":
            idleness.heard(now)
            last = now
        else:
            idleness.answered(now)
            last = now if last is not None else None
        assert (idleness.silent_for(now) > 0) <= (last is None)
        if last is None:
            assert idleness.left(now) == FIRST - now
        else:
            assert idleness.left(now) == pytest.approx(USUAL)
        assert idleness.next_look(now) <= USUAL, "for the limit may change meanwhile"


@pytest.mark.parametrize(("first", "usual"), [(0.0, 0.0), (0.0, USUAL), (FIRST, 0.0)])
def test_no_limit(first: float, usual: float) -> None:
    idleness = Idleness(first, usual, 0.0)
    assert (idleness.left(1e6) > 0) is (first == 0)
    idleness.heard(1e6)
    assert (idleness.left(2e6) > 0) is (usual == 0)


async def ended(client: Client) -> tuple[list[dict[str, Any]], int | None, str | None]:
    """The errors that it is told before the end, and how that is called."""
    with pytest.raises(ConnectionClosed):
        while True:
            await client.receive()
    errors = [event["error"] for event in client.seen if event["type"] == "error"]
    return errors, client.socket.close_code, client.socket.close_reason


async def test_who_never_says_anything_is_closed() -> None:
    config = GatewayConfig(port=0, first_message_seconds=0.05, idle_seconds=1e6)
    async with running(config) as gateway:
        async with gateway.client() as client:
            [error], *close = await ended(client)
            assert error["code"] == "session_idle" and "0.05 seconds" in error["message"]
            assert close == [1001, "session idle"]
        await gateway.engine.wait_for(lambda: not gateway.engine.sessions)


async def test_who_falls_silent_is_closed() -> None:
    config = GatewayConfig(port=0, first_message_seconds=1e6, idle_seconds=0.05)
    async with running(config) as gateway, gateway.client() as client:
        await client.send("input_audio_buffer.clear")
        await client.until("cleared")
        [error], *close = await ended(client)
        assert error["code"] == "session_idle"
        assert close == [1001, "session idle"]


async def test_what_was_said_before_the_silence_is_told_before_the_end() -> None:
    config = GatewayConfig(port=0, first_message_seconds=1e6, idle_seconds=0.05)
    async with running(config) as gateway:
        gateway.services.clock = clock = Clock()
        async with gateway.client() as client:
            await client.until("session.created")
            await client.update(MANUAL)
            await client.append(tone(0.5))
            await client.until(".delta")
            clock.now += 1.0
            [error], *close = await ended(client)
            assert error["code"] == "session_idle" and close == [1001, "session idle"]
            *_, completed, last = client.seen
            assert completed["transcript"] == transcript(8000) and last["error"] == error


@pytest.mark.parametrize("code", ["session_idle", "session_expired"])
async def test_what_is_under_way_is_not_waited_for_without_end(code: str) -> None:
    config = GatewayConfig(port=0, idle_seconds=0.05, drain_seconds=0.05)
    async with running(config, FakeEngine(hold=True)) as gateway:
        gateway.services.clock = clock = Clock()
        async with gateway.client() as client:
            await client.until("session.created")
            await client.update(MANUAL)
            await client.append(tone(0.5))
            await client.until(".delta")
            await client.send("input_audio_buffer.commit")
            await client.until("input_audio_buffer.committed")
            if code == "session_idle":
                clock.now += 1.0
            else:
                [session] = gateway.services.sessions
                assert isinstance(session, RealtimeSession)
                session._lifetime._expire()
            [error], *close = await ended(client)
            assert error["code"] == code
            assert close == [1001, code.replace("_", " ")]
        await gateway.engine.wait_for(lambda: not gateway.engine.sessions)


async def test_who_is_over_for_two_reasons_leaves_no_timer() -> None:
    said: list[str | None] = []
    async with running() as gateway:
        lifetime = Lifetime(gateway.services, lambda why, _: said.append(why.code))
        lifetime.end_idle(1.0, "without one")
        timer = lifetime._timers[2]
        lifetime._expire()
        lifetime.cancel()
    assert said == ["session_idle", "session_expired"]
    assert timer is not None and timer.cancelled()


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


async def full(
    gateway: Running, *, silent: int, speaking: int
) -> tuple[list[Client], list[Client]]:
    clients = []
    for index in range(silent + speaking):
        clients.append(await gateway.client().__aenter__())
        await clients[-1].until("session.created")
        if index >= silent:
            await clients[-1].send("input_audio_buffer.clear")
            await clients[-1].until("cleared")
    return clients[:silent], clients[silent:]


async def test_silent_sessions_keep_nobody_out() -> None:
    config = GatewayConfig(port=0, max_sessions=3, first_message_seconds=1e6)
    async with running(config) as gateway:
        gateway.services.clock = clock = Clock()
        silent, speaking = await full(gateway, silent=2, speaking=1)
        early = await gateway.refused()
        assert early.error["code"] == "too_many_sessions" and early.retry_after == GRACE
        clock.now += early.retry_after
        async with gateway.client() as late, gateway.client() as later:
            await late.until("session.created")
            await later.until("session.created")
            for client in silent:
                [error], *close = await ended(client)
                assert error["code"] == "session_idle" and close == [1001, "session idle"]
            assert len(gateway.services.sessions) == 3
            await speaking[0].send("input_audio_buffer.clear")
            await speaking[0].until("cleared")
        for client in speaking:
            await client.socket.close()


async def test_silent_speakers_keep_nobody_out_either() -> None:
    engine = FakeEngine()
    engine.loads["fake/whisper"] = LiveLoad(
        0, places=1, lag=2.4, lag_beyond=2.4, bound=2.0, come_back=1.0
    )
    config = GatewayConfig(port=0, first_message_seconds=1e6)
    async with running(config, engine) as gateway:
        gateway.services.clock = clock = Clock()
        async with gateway.client() as silent:
            await silent.until("session.created")
            clock.now += GRACE
            async with gateway.client() as client:
                await client.until("session.created")
                [error], *close = await ended(silent)
                assert error["code"] == "session_idle" and close == [1001, "session idle"]
                await gateway.engine.wait_for(lambda: len(gateway.engine.sessions) == 1)


async def test_one_client_has_so_many_sessions_only() -> None:
    config = GatewayConfig(
        port=0, api_keys=("one", "two"), max_client_sessions=1, first_message_seconds=1e6
    )
    async with running(config) as gateway:
        keys = [{"authorization": f"Bearer {key}"} for key in config.api_keys]
        async with gateway.client(additional_headers=keys[0]) as first:
            await first.until("session.created")
            second = await gateway.refused(additional_headers=keys[0])
            assert second.error["code"] == "too_many_sessions" and second.retry_after
            assert "1 of one client" in second.error["message"]
            async with gateway.client(additional_headers=keys[1]) as other:
                await other.until("session.created")
        await gateway.engine.wait_for(lambda: not gateway.services.sessions)
        async with gateway.client(additional_headers=keys[0]) as again:
            await again.until("session.created")
