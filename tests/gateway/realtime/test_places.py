"""Speakers beyond what the machine holds: refused at once and in words; those inside go on."""

from __future__ import annotations

import asyncio
import math

import numpy as np
import pytest
from httpx import AsyncClient
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from lookhear.engine.messages import ExpectSpeech, LiveLoad, TurnFailed
from lookhear.gateway.config import GatewayConfig
from tests.gateway.fake_engine import FakeEngine, transcript
from tests.gateway.running import MANUAL, running, tone

MODEL = "fake/whisper"
CHAT = {"type": "realtime", "output_modalities": ["text"]}


def full(places: int = 0) -> LiveLoad:
    return LiveLoad(0, places, lag=2.4, lag_beyond=2.4, bound=2.0, come_back=11.2)


def bounded(places: int, *, sees: bool = False) -> FakeEngine:
    engine = FakeEngine(sees=sees)
    engine.loads[MODEL] = full(places)
    return engine


async def test_one_too_many_gets_503_and_when_to_come_back() -> None:
    async with running(engine=bounded(1)) as gateway:
        async with gateway.client() as first:
            await first.until("session.created")
            status, retry_after, problem = await gateway.refused()
            assert (status, retry_after) == (503, 12)
            assert problem["code"] == "too_many_speakers"
            assert problem["type"] == "server_error"
            for part in ("within 2 s", "2.4 s", "come back in 12 s"):
                assert part in problem["message"]
            # Whoever is inside notices nothing.
            await first.update(MANUAL)
            await first.append(tone(0.2))
            await first.send("input_audio_buffer.commit")
            assert (await first.until(".completed"))["transcript"] == transcript(3200)
            assert "error" not in first.types()
        await gateway.engine.wait_for(lambda: not gateway.engine.sessions)
        async with gateway.client() as third:
            await third.until("session.created")


async def test_who_comes_back_has_the_place_that_it_just_left() -> None:
    """The engine has not said yet that it is free."""
    engine = bounded(1)
    async with running(engine=engine) as gateway:
        async with gateway.client() as first:
            await first.until("session.created")
        await engine.wait_for(lambda: not engine.sessions)
        engine.loads[MODEL], engine.counting = full(0), asyncio.Event()

        async def come_back() -> None:
            async with gateway.client() as again:
                await again.until("session.created")

        coming = asyncio.create_task(come_back())
        await engine.wait_for(lambda: engine.waiting == 1)
        engine.loads[MODEL] = full(1)
        engine.counting.set()
        await coming


async def test_who_comes_back_at_once_has_its_session_again() -> None:
    async with running(GatewayConfig(port=0, max_sessions=1)) as gateway:
        for _ in range(20):
            async with gateway.client() as client:
                await client.until("session.created")


async def test_a_page_is_told_inside_because_it_sees_nothing_of_a_handshake() -> None:
    async with running(engine=bounded(0)) as gateway:
        async with gateway.client(origin=gateway.http) as page:
            problem = await page.receive()
            assert problem["error"]["code"] == "too_many_speakers"
            assert problem["error"]["type"] == "server_error"
            await page.socket.wait_closed()
            assert page.socket.close_code == 1013
    assert gateway.engine.messages == []


async def test_a_burst_cannot_pass() -> None:
    """Each is counted before its handshake is answered."""
    async with running(engine=bounded(2)) as gateway:
        async with gateway.client() as one, gateway.client() as two:
            assert (await gateway.refused()).status == 503
            await one.until("session.created")
            await two.until("session.created")
        expected = [m for m in gateway.engine.messages if isinstance(m, ExpectSpeech)]
        assert [message.model for message in expected] == [MODEL, MODEL]


@pytest.mark.parametrize("query", ["model=fake/vision", ""])
async def test_who_may_be_there_to_chat_is_let_in(query: str) -> None:
    async with running(engine=bounded(0, sees=True)) as gateway:
        async with gateway.client(query) as client:
            await client.until("session.created")
        assert not any(isinstance(m, ExpectSpeech) for m in gateway.engine.messages)
        assert (await gateway.refused(f"model={MODEL}")).status == 503


@pytest.mark.parametrize("place", ["/v1/realtime?intent=transcription", "/v1/listen"])
async def test_who_comes_to_transcribe_is_not_taken_for_one_who_chats(place: str) -> None:
    """Where a model that answers is served, too."""
    async with running(engine=bounded(0, sees=True)) as gateway:
        with pytest.raises(InvalidStatus) as raised:
            await connect(gateway.http.replace("http", "ws") + place)
        assert raised.value.response.status_code == 503
        assert raised.value.response.headers["retry-after"] == "12"


@pytest.mark.parametrize(("kind", "is_let_in"), [("transcription", False), ("realtime", True)])
async def test_a_client_secret_says_whether_its_session_may_chat(
    kind: str, is_let_in: bool
) -> None:
    async with running(engine=bounded(0, sees=True)) as gateway:
        async with AsyncClient(base_url=gateway.http) as http:
            body = {"session": {"type": kind}}
            made = await http.post("/v1/realtime/client_secrets", json=body)
        headers = {"Authorization": f"Bearer {made.json()['value']}"}
        if is_let_in:
            async with gateway.client("", additional_headers=headers) as client:
                await client.until("session.created")
        else:
            assert (await gateway.refused("", additional_headers=headers)).status == 503


async def test_other_models_have_places_of_their_own() -> None:
    async with running(engine=bounded(0)) as gateway:
        async with gateway.client("model=fake-english") as client:
            await client.until("session.created")


async def test_who_begins_to_speak_inside_hears_it_at_once() -> None:
    """A session that was let in to chat: the engine refuses its first turn."""
    async with running() as gateway:
        async with gateway.client() as client:
            await client.until("session.created")
            await client.update(MANUAL)
            await client.append(tone(0.2))
            await gateway.engine.wait_for(lambda: bool(gateway.engine.turns))
            ((session, turn),) = gateway.engine.turns
            failure = TurnFailed(session, turn, "too_many_speakers", full().refusal)
            gateway.engine.sessions[session](failure)
            while (event := await client.receive())["type"] != "error":
                pass
            assert event["error"]["code"] == "too_many_speakers"
            # To clients a `server_error` is one before the server closes.
            assert event["error"]["type"] == "transcription_error"
            assert "come back in 12 s" in event["error"]["message"]
            await client.append(tone(0.2))  # the socket stays open, nothing breaks
            await client.send("input_audio_buffer.commit")
            failed = await client.until(".failed")
            assert failed["error"]["code"] == "too_many_speakers"
            await client.append(tone(0.2))
            await client.send("input_audio_buffer.commit")
            assert (await client.until(".completed"))["transcript"] == transcript(3200)


async def test_it_is_counted_and_shown() -> None:
    async with running(engine=bounded(1)) as gateway, AsyncClient(base_url=gateway.http) as http:
        async with gateway.client() as client:
            await client.until("session.created")
            await gateway.refused()
            states = (await http.get("/ready")).json()["models"]
            told = {state["name"]: state.get("live") for state in states}
            assert told[MODEL] == {
                "speakers": 1,
                "places": 0,
                "predicted_lag": 2.4,
                "max_lag": 2.0,
            }
            assert told["fake-english"] is None
            text = (await http.get("/metrics")).text
            for line in (
                'lookhear_refused_total{code="too_many_speakers"} 1.0',
                f'lookhear_live_places{{model="{MODEL}"}} 0.0',
                f'lookhear_live_speakers{{model="{MODEL}"}} 1.0',
                f'lookhear_predicted_commit_lag_seconds{{model="{MODEL}"}} 2.4',
            ):
                assert line in text, line


def test_retry_after_is_whole_seconds() -> None:
    for come_back in np.linspace(1, 60, 100):
        load = LiveLoad(1, 0, 3.0, 3.0, 2.0, float(come_back))
        assert load.retry_after == math.ceil(come_back)
