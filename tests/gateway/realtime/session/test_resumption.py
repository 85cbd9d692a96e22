"""A client whose socket was cut comes back, and misses nothing; by a raw client that knows only the
page about the wire."""

from __future__ import annotations

import asyncio
import base64
import json
import random
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from lookhear.engine.messages import LiveLoad
from lookhear.gateway.config import GatewayConfig
from tests.gateway.fake_engine import FakeEngine, transcript
from tests.gateway.running import MANUAL, PATIENCE, Client, Running, chunks, running, tone

SETTINGS = {"type": "transcription", **MANUAL}
CREATED, RESUMED = "session.created", "lookhear.session.resumed"


def offer(client: Client) -> dict[str, Any]:
    created = next(event for event in client.seen if event["type"] == CREATED)
    resume: dict[str, Any] = created["session"]["lookhear"]["resume"]
    return resume


def again(gateway: Running, token: str, after: str, **options: Any) -> Client:
    query = f"intent=transcription&lookhear_resume={token}&lookhear_after={after}"
    return gateway.client(query, **options)


async def refusal(client: Client) -> tuple[int, str]:
    with pytest.raises(InvalidStatus) as caught:
        await client.__aenter__()
    body = json.loads(caught.value.response.body or b"")
    return caught.value.response.status_code, body["error"]["code"]


async def spoken(gateway: Running) -> Client:
    """A client that has begun a turn."""
    client = await gateway.client().__aenter__()
    await client.until(CREATED)
    await client.update(MANUAL)
    await client.append(tone(0.5))
    await client.until(".delta")
    return client


async def cut(gateway: Running, client: Client) -> str:
    """Its socket, without a close frame -> the last event that came."""
    client.socket.transport.abort()
    await client.socket.wait_closed()
    (session,) = gateway.services.sessions
    async with asyncio.timeout(PATIENCE):
        while session.away_for == 0.0:
            await asyncio.sleep(0)
    last: str = client.seen[-1]["event_id"]
    return last


@pytest.mark.parametrize("seed", range(12))
async def test_wherever_it_is_cut_nothing_is_lost_or_doubled(gateway: Running, seed: int) -> None:
    draw = random.Random(seed)
    messages = [json.dumps({"type": "session.update", "session": SETTINGS})]
    audio = [0, 0]  # bytes in so many messages
    for _ in range(2):
        for chunk in chunks(tone(2.0), draw.choice([961, 4801, 9600])):
            encoded = base64.b64encode(chunk).decode()
            messages.append(json.dumps({"type": "input_audio_buffer.append", "audio": encoded}))
            audio.append(audio[-1] + len(chunk))
        messages.append(json.dumps({"type": "input_audio_buffer.commit"}))
        audio.append(audio[-1])
    events: dict[str, dict[str, Any]] = {}
    taken, token, query = 0, "", "intent=transcription"
    for is_last in [*(draw.random() < 0.15 for _ in range(10)), True]:
        async with gateway.client(query) as client:
            first = await client.receive()
            token = token or offer(client)["token"]
            if first["type"] == RESUMED:
                taken = first["messages"]
                assert first["audio_bytes"] == audio[taken]
            else:
                events[first["event_id"]] = first
            upto = len(messages) if is_last else draw.randint(max(1, taken), len(messages))
            for message in messages[taken:upto]:
                await client.socket.send(message)
            most = 10**9 if is_last else draw.randint(0, 20)
            while len(client.seen) <= most:
                if sum(e["type"].endswith(".completed") for e in events.values()) == 2:
                    break
                try:
                    async with asyncio.timeout(None if is_last else 0.05):  # or else nothing comes
                        event = await client.receive()
                except TimeoutError:
                    break
                assert event["event_id"] not in events, "an event came twice"
                events[event["event_id"]] = event
            if is_last:
                break
            query = f"lookhear_resume={token}&lookhear_after={client.seen[-1]['event_id']}"
            client.socket.transport.abort()
    told = list(events.values())
    done = [e for e in told if e["type"].endswith(".completed")]
    assert [e["transcript"] for e in done] == [transcript(32_000)] * 2
    for turn in done:
        of_turn = [e for e in told if e.get("item_id") == turn["item_id"]]
        deltas = [e["delta"] for e in of_turn if e["type"].endswith(".delta")]
        assert "".join(deltas) == turn["transcript"]
    assert len({e["item_id"] for e in told if e["type"].endswith(".committed")}) == 2


async def test_what_is_said_meanwhile_comes_first(gateway: Running) -> None:
    client = await spoken(gateway)
    await client.send("input_audio_buffer.commit", event_id="mine")
    await client.until("committed")
    last = await cut(gateway, client)
    token = offer(client)["token"]
    rendered = gateway.services.metrics.render().decode()
    assert "lookhear_sessions_detached 1.0" in rendered
    async with again(gateway, token, last) as back:
        assert await back.receive() == {
            "type": RESUMED,
            "event_id": back.seen[0]["event_id"],
            "messages": 3,
            "audio_bytes": 24_000,
        }
        done = await back.until(".completed")
        assert done["transcript"] == client.deltas(done["item_id"]) + back.deltas(done["item_id"])
        assert CREATED not in back.types(), "it is the same session"
    rendered = gateway.services.metrics.render().decode()
    assert "lookhear_sessions_detached 0.0" in rendered
    assert 'lookhear_resumptions_total{outcome="resumed"} 1.0' in rendered


async def test_who_cannot_come_back_is_told_why() -> None:
    config = GatewayConfig(port=0, api_keys=("one", "two"))
    async with running(config) as gateway:
        one, two = ({"authorization": f"Bearer {key}"} for key in config.api_keys)
        async with gateway.client(additional_headers=one) as client:
            await client.until(CREATED)
            await client.update(MANUAL)
            last = await cut(gateway, client)
            token = offer(client)["token"]

            async def asked(token: str, after: str, key: dict[str, str]) -> tuple[int, str]:
                return await refusal(again(gateway, token, after, additional_headers=key))

            assert await asked("x" + token, last, one) == (404, "session_not_found")
            assert await asked(token, last, {}) == (401, "invalid_api_key")
            assert await asked(token, last, two) == (403, "session_of_another_key")
            assert await asked(token, "", one) == (400, "missing_required_parameter")
            assert await asked(token, "event_x", one) == (409, "session_not_resumable")
            async with again(gateway, token, last, additional_headers=one) as back:
                await back.until(RESUMED)
            # It was closed now, not cut.
            await gateway.engine.wait_for(lambda: not gateway.engine.sessions)
            assert await asked(token, last, one) == (404, "session_not_found")


async def test_a_page_is_told_inside(gateway: Running) -> None:
    page = {"additional_headers": {"origin": gateway.http}}
    async with again(gateway, "unknown", "event_x", **page) as client:
        assert (await client.receive())["error"]["code"] == "session_not_found"
        with pytest.raises(ConnectionClosed):
            await client.receive()
        assert client.socket.close_code == 4404


async def test_the_newest_socket_has_the_session(gateway: Running) -> None:
    first = await spoken(gateway)
    token, last = offer(first)["token"], first.seen[-1]["event_id"]
    async with again(gateway, token, last) as second, again(gateway, token, last) as third:
        await third.until(RESUMED)
        for older in (first, second):
            with pytest.raises(ConnectionClosed):
                while True:
                    await older.receive()
            assert older.seen[-1]["error"]["code"] == "session_resumed_elsewhere"
            assert older.socket.close_code == 4410
        await third.append(tone(0.5))
        await third.send("input_audio_buffer.commit")
        assert (await third.until(".completed"))["transcript"] == transcript(16_000)


async def test_who_is_away_makes_room_first() -> None:
    config = GatewayConfig(port=0, max_sessions=1)
    async with running(config) as gateway:
        client = await spoken(gateway)
        last = await cut(gateway, client)
        async with gateway.client() as newcomer:
            await newcomer.until(CREATED)
            back = again(gateway, offer(client)["token"], last)
            assert await refusal(back) == (404, "session_not_found")
            assert len(gateway.engine.sessions) == 1


async def test_who_is_away_gives_its_place_to_speak_to_somebody_who_is_there() -> None:
    engine = FakeEngine()
    load = LiveLoad(0, 1, lag=2.4, lag_beyond=2.4, bound=2.0, come_back=11.2)
    engine.loads["fake/whisper"] = load
    async with running(engine=engine) as gateway:
        client = await spoken(gateway)
        assert (await gateway.refused()).status == 503
        last = await cut(gateway, client)
        async with gateway.client() as newcomer:
            await newcomer.until(CREATED)
            back = again(gateway, offer(client)["token"], last)
            assert await refusal(back) == (404, "session_not_found")
            await engine.wait_for(lambda: len(engine.sessions) == 1)
            assert (await gateway.refused()).status == 503  # who is there keeps its own


async def test_who_never_spoke_has_nothing_to_come_back_to(gateway: Running) -> None:
    async with gateway.client() as client:
        await client.until(CREATED)
        client.socket.transport.abort()
        await gateway.engine.wait_for(lambda: not gateway.engine.sessions)


async def test_a_server_that_ends_waits_for_nobody(gateway: Running) -> None:
    client = await spoken(gateway)
    await cut(gateway, client)
    await gateway.services.drain(PATIENCE)
    assert not gateway.services.sessions and not gateway.engine.sessions


async def test_an_engine_that_dies_meanwhile_ends_it(gateway: Running) -> None:
    client = await spoken(gateway)
    last = await cut(gateway, client)
    gateway.engine.die()
    await gateway.engine.wait_for(lambda: not gateway.services.sessions)
    back = again(gateway, offer(client)["token"], last)
    assert (await refusal(back))[1] in ("session_not_found", "engine_not_ready")


async def test_it_is_not_offered_where_it_is_off() -> None:
    async with running(GatewayConfig(port=0, resume_seconds=0.0), FakeEngine()) as gateway:
        async with gateway.client() as client:
            created = await client.until(CREATED)
            assert "lookhear" not in created["session"]
