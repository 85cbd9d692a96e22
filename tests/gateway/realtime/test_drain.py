"""A server that is to end: what is under way ends first, nothing new begins, nothing is lost."""

from __future__ import annotations

import asyncio
import json
import signal
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.exceptions import InvalidStatus

from lookhear.gateway.config import GatewayConfig
from lookhear.gateway.realtime.protocol.dialect import Close
from lookhear.gateway.realtime.protocol.refusals import expired
from lookhear.gateway.realtime.session import departure
from lookhear.media.voice.vad import SpeechStarted
from tests.gateway.fake_engine import FakeEngine, transcript
from tests.gateway.files.test_http import wav
from tests.gateway.running import MANUAL, Client, Running, running, tone
from tests.gateway.scripted import Script

GOODBYE = ("going_away", 1001)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who has nothing under way is let go soon."""
    monkeypatch.setattr(departure, "QUIET_SECONDS", 0.02)


async def goodbye(client: Client) -> tuple[str, int | None]:
    """The server's last words, and its close code."""
    while (event := await client.receive())["type"] != "error":
        pass
    await client.socket.wait_closed()
    assert event["error"]["type"] == "server_error"
    return event["error"]["code"], client.socket.close_code


async def opened(client: Client, session: dict[str, Any] = MANUAL) -> None:
    await client.until("session.created")
    await client.update(session)


def numbers(gateway: Running) -> tuple[float | None, ...]:
    """Processes that drain; sessions that finished in time, and that were cut off."""
    value = gateway.services.metrics.registry.get_sample_value
    ends = [
        value("lookhear_drained_sessions_total", {"outcome": outcome})
        for outcome in ("finished", "cut")
    ]
    return value("lookhear_draining"), *ends


def drained(gateway: Running, seconds: float = 600.0) -> asyncio.Task[None]:
    return asyncio.create_task(gateway.services.drain(seconds))


# --- the session, without sockets ----------------------------------------------------------------


@given(pieces=st.lists(st.floats(0.05, 0.5), min_size=1, max_size=4), manual=st.booleans())
def test_an_open_turn_ends_as_by_a_commit(pieces: list[float], manual: bool) -> None:
    """Whatever was said of it until then; the goodbye comes behind its text."""

    def spoken() -> Script:
        script = Script()
        script.update(MANUAL if manual else {})
        for index, seconds in enumerate(pieces):
            begins = not manual and not index
            script.hear(seconds, [SpeechStarted(0)] if begins else [], speaking=True)
        return script

    committed, departed = spoken(), spoken()
    expected = committed.client("input_audio_buffer.commit")
    assert departed._take(departed.protocol.depart(now=departed.now)) == expected
    (item,) = departed.started
    assert departed.samples(item) == committed.samples(item) and departed.ended == [item]
    assert not departed.closes
    for script in (committed, departed):
        script.say(item, "all of it")
        script.complete(item)
    assert departed.frames[: len(committed.frames)] == committed.frames
    (last,) = departed.frames[len(committed.frames) :]
    assert last["error"]["code"] == "going_away"
    assert [close.code for close in departed.closes] == [1001]


def test_a_session_that_ends_for_another_reason_is_told_that_one() -> None:
    script = Script()
    script.update(MANUAL)
    script.hear(0.5, speaking=True)
    script._take(script.protocol.depart(expired(1.0), Close(1001, "over"), now=script.now))
    (item,) = script.ended
    assert not script.closes
    script.complete(item)
    assert script.last[-1]["error"]["code"] == "session_expired"
    assert script.closes == [Close(1001, "over")]


def test_who_has_nothing_under_way_leaves_at_once_and_makes_no_item() -> None:
    script = Script()
    script.hear(1.0, voiced_until=0)  # silence
    assert script.protocol.is_idle
    script._take(script.protocol.depart(now=script.now))
    assert [frame["type"] for frame in script.last] == ["error"]
    assert [close.code for close in script.closes] == [1001] and not script.started


@pytest.mark.parametrize("knows", [False, True])
def test_only_those_who_know_our_extensions_are_warned(knows: bool) -> None:
    script = Script()
    script.update({"lookhear": {"provisional": True}} if knows else {})
    script._take(script.protocol.warn(20.0))
    told = [{"type": "lookhear.going_away", "seconds": 20.0}] if knows else []
    assert [{k: v for k, v in f.items() if k != "event_id"} for f in script.last] == told


# --- the server ----------------------------------------------------------------------------------


async def test_speech_under_way_goes_on_and_is_answered_in_full(gateway: Running) -> None:
    async with gateway.client() as speaker, gateway.client() as silent:
        await opened(speaker)
        await opened(silent)
        await speaker.append(tone(0.5))
        await speaker.until(".delta")
        draining = drained(gateway)
        assert await goodbye(silent) == GOODBYE
        await speaker.append(tone(0.5))  # it speaks on
        await speaker.send("input_audio_buffer.commit")
        assert (await speaker.until(".completed"))["transcript"] == transcript(16_000)
        assert await goodbye(speaker) == GOODBYE
        await draining
    assert not gateway.services.sessions
    assert numbers(gateway) == (1, 2, 0)


async def test_turns_that_wait_for_their_text_get_it() -> None:
    """A client that sent all at once, and more than the server takes at a time."""
    engine = FakeEngine(hold=True)
    async with running(GatewayConfig(port=0, max_pending_turns=2), engine) as gateway:
        async with gateway.client() as client:
            await opened(client)
            for _ in range(5):
                await client.append(tone(0.2))
                await client.send("input_audio_buffer.commit")
            await engine.wait_for(lambda: len(engine._held) == 2)
            draining = drained(gateway)
            texts: list[str] = []
            while len(texts) < 5:
                await engine.wait_for(lambda: bool(engine._held))
                held = len(engine._held)
                engine.release()
                texts += [(await client.until(".completed"))["transcript"] for _ in range(held)]
            assert texts == [transcript(3200)] * 5
            assert await goodbye(client) == GOODBYE
            await draining


async def test_at_the_end_of_its_time_what_was_said_is_committed(gateway: Running) -> None:
    async with gateway.client() as client:
        await opened(client)
        await client.append(tone(0.5))
        await client.until(".delta")
        draining = drained(gateway, 0.05)
        done = await client.until(".completed")
        assert done["transcript"] == client.deltas(done["item_id"]) == transcript(8000)
        assert await goodbye(client) == GOODBYE
        await draining
    assert numbers(gateway) == (1, 0, 1)


async def test_nothing_new_begins_and_everybody_is_told_why(gateway: Running) -> None:
    origin = gateway.http
    async with gateway.client() as client, httpx.AsyncClient(base_url=gateway.http) as http:
        await opened(client)
        await client.append(tone(0.2))
        await client.until(".delta")
        draining = drained(gateway)
        await asyncio.sleep(0)
        ready = await http.get("/ready")
        assert (ready.status_code, ready.json()["status"]) == (503, "draining")
        assert ready.headers["retry-after"]
        assert (await http.get("/health")).status_code == 200
        for path in ("/v1/audio/transcriptions", "/v1/chat/completions"):
            refused = await http.post(path)
            assert (refused.status_code, refused.json()["error"]["code"]) == (503, "going_away")
            assert int(refused.headers["retry-after"]) > 0
        with pytest.raises(InvalidStatus) as handshake:
            async with gateway.client():
                pass
        answer = handshake.value.response
        assert answer.status_code == 503 and int(answer.headers["retry-after"]) > 0
        assert json.loads(answer.body or b"")["error"]["code"] == "going_away"
        async with gateway.client(additional_headers={"Origin": origin}) as page:
            assert await goodbye(page) == GOODBYE
        assert not draining.done()
        await client.send("input_audio_buffer.commit")
        assert (await client.until(".completed"))["transcript"] == transcript(3200)
        await draining


async def test_files_under_way_are_finished(gateway: Running) -> None:
    engine = gateway.engine
    engine.file_gate = asyncio.Event()
    async with httpx.AsyncClient(base_url=gateway.http, timeout=60) as http:
        files = {"file": ("a.wav", wav(0.5))}
        asking = asyncio.create_task(http.post("/v1/audio/transcriptions", files=files))
        await engine.wait_for(lambda: bool(engine.files))
        draining = drained(gateway)
        await asyncio.sleep(0)
        assert gateway.services.draining and not draining.done()
        engine.file_gate.set()
        assert (await asking).status_code == 200
        await draining


@pytest.mark.parametrize("second", [None, signal.SIGTERM, signal.SIGINT])
async def test_the_first_sigterm_drains_and_any_second_signal_ends(second: int | None) -> None:
    async with running(GatewayConfig(port=0, drain_seconds=600.0)) as gateway:
        async with gateway.client() as client:
            await opened(client)
            await client.append(tone(0.2))
            await client.until(".delta")
            gateway.signal(signal.SIGTERM)
            async with asyncio.timeout(60):
                while not gateway.services.draining:
                    await asyncio.sleep(0)
            if second is None:
                await client.send("input_audio_buffer.commit")
                assert (await client.until(".completed"))["transcript"] == transcript(3200)
            else:
                gateway.signal(second)
            assert await goodbye(client) == GOODBYE
            assert second is None or ".completed" not in "".join(client.types())
        await gateway.ended


@pytest.mark.parametrize(("sig", "seconds"), [(signal.SIGINT, 600.0), (signal.SIGTERM, 0.0)])
async def test_control_c_waits_for_nobody(sig: int, seconds: float) -> None:
    async with running(GatewayConfig(port=0, drain_seconds=seconds)) as gateway:
        async with gateway.client() as client:
            await opened(client)
            await client.append(tone(0.2))
            await client.until(".delta")
            gateway.signal(sig)
            assert await goodbye(client) == GOODBYE
        await gateway.ended
        assert not gateway.services.draining
