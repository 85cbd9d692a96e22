"""Who comes back to a session at another worker reaches it, over real sockets."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookhear.gateway.config import GatewayConfig
from lookhear.gateway.services.siblings import Siblings
from lookhear.gateway.sockets.relay import door, keeper, token_of
from tests.gateway.fake_engine import transcript
from tests.gateway.realtime.session.test_resumption import again, cut, offer, refusal, spoken
from tests.gateway.running import PATIENCE, Client, Running, chunks, running, tone
from tests.gateway.sockets.test_handshakes import encrypted, folder, trusting

__all__ = ["folder"]  # a fixture

secrets = st.text("ABCxyz019-_", min_size=1, max_size=50)


@given(st.integers(1, 64), secrets)
def test_a_token_names_the_worker_that_keeps_the_session(worker: int, secret: str) -> None:
    for before, behind in (("", ""), ("intent=transcription&", "&lookhear_after=event_1")):
        target = f"/v1/realtime?{before}lookhear_resume={token_of(worker, secret)}{behind}"
        assert keeper(target.encode()) == worker


@given(st.binary())
def test_whatever_is_asked_for_names_one_or_none(target: bytes) -> None:
    for asked in (target, b"/v1/realtime?lookhear_resume=" + target):
        assert keeper(asked) in (None, *range(1, 100))


def test_one_process_alone_names_nobody() -> None:
    assert token_of(0, "secret") == "secret"
    assert keeper(b"/v1/realtime?lookhear_resume=secret") is None


@contextlib.asynccontextmanager
async def pair(where: Path, config: GatewayConfig) -> AsyncIterator[tuple[Running, Running]]:
    async with (
        running(config, siblings=Siblings(1, where)) as first,
        running(config, siblings=Siblings(2, where)) as second,
    ):
        yield first, second


async def finished(client: Client) -> None:
    """It speaks on, and hears all that was said on both connections."""
    await client.until("lookhear.session.resumed")
    for chunk in chunks(tone(1.5), 4800):
        await client.append(chunk)
    await client.send("input_audio_buffer.commit")
    done = await client.until(".completed")
    assert done["transcript"] == transcript(32_000)


async def test_a_session_goes_on_through_another_worker(tmp_path: Path) -> None:
    async with pair(tmp_path, GatewayConfig(port=0)) as (keeps, other):
        client = await spoken(keeps)
        token = offer(client)["token"]
        last = await cut(keeps, client)
        async with again(other, token, last) as back:
            await finished(back)
            assert len(keeps.services.sessions) == 1 and not other.services.sessions
            assert other.services.relays.count == 1 and other.services.connections.working == 1
            last = back.seen[-1]["event_id"]
        # Closed as it should be, the session is over; and nothing is left of the relay.
        async with asyncio.timeout(PATIENCE):
            await other.services.relays.over()
            while keeps.services.sessions or other.services.connections.working:
                await asyncio.sleep(0)
        assert await refusal(again(other, token, last)) == (404, "session_not_found")


async def test_a_relay_that_is_cut_leaves_the_session_for_the_next(tmp_path: Path) -> None:
    async with pair(tmp_path, GatewayConfig(port=0)) as (keeps, other):
        client = await spoken(keeps)
        token = offer(client)["token"]
        last = await cut(keeps, client)
        relayed = await again(other, token, last).__aenter__()
        await relayed.until("lookhear.session.resumed")
        last = await cut(keeps, relayed)
        async with again(keeps, token, last) as back:
            await finished(back)


async def test_through_tls_the_client_keeps_its_address(tmp_path: Path, folder: Path) -> None:
    def secure(client: Client) -> Client:
        client.url = client.url.replace("ws://", "wss://")
        client.options["ssl"] = trusting()
        return client

    async with pair(tmp_path, encrypted(folder)) as (keeps, other):
        client = await secure(keeps.client()).__aenter__()
        await client.update({"audio": {"input": {"turn_detection": None}}})
        await client.append(tone(0.5))
        await client.until(".delta")
        token, last = offer(client)["token"], await cut(keeps, client)
        async with secure(again(other, token, last)) as back:
            assert set(keeps.services.connections._of_address) == {"127.0.0.1"}
            await finished(back)


async def test_a_large_message_passes_whole_and_slowly_read_events_too(tmp_path: Path) -> None:
    """More than fits into the sockets in between."""
    async with pair(tmp_path, GatewayConfig(port=0)) as (keeps, other):
        client = await spoken(keeps)
        token = offer(client)["token"]
        last = await cut(keeps, client)
        async with again(other, token, last) as back:
            await back.until("lookhear.session.resumed")
            await back.append(tone(100.0))
            await back.send("input_audio_buffer.commit")
            done = await back.until(".completed")
            assert done["transcript"] == transcript(round(100.5 * 16_000))


@pytest.mark.parametrize("token", ["2.nobody", "3.nobody", "1.nobody"])
async def test_nobody_keeps_it(token: str, tmp_path: Path) -> None:
    """Neither a worker that is there, nor one that is not."""
    async with pair(tmp_path, GatewayConfig(port=0)) as (first, second):
        assert await refusal(again(first, token, "event_1")) == (404, "session_not_found")
        assert not first.services.relays.count and not second.services.relays.count


async def test_a_dead_worker_has_left_its_door(tmp_path: Path) -> None:
    async with running(GatewayConfig(port=0), siblings=Siblings(1, tmp_path)) as gateway:
        door(tmp_path, 2).touch()  # nobody listens there
        assert await refusal(again(gateway, "2.x", "event_1")) == (404, "session_not_found")
        async with running(GatewayConfig(port=0), siblings=Siblings(1, tmp_path)) as next_one:
            assert await refusal(again(next_one, "1.x", "e")) == (404, "session_not_found")
