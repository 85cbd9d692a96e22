"""Both sides of a call on one connection of Deepgram's live wire."""

from __future__ import annotations

import asyncio
import hashlib
import json

import numpy as np
import pytest
from websockets.exceptions import InvalidStatus

from lookhear.engine.messages import AppendAudio, EndTurn
from lookhear.gateway.config import GatewayConfig
from tests.gateway.deepgram.frames import check, text_of
from tests.gateway.fake_engine import FakeEngine, transcript
from tests.gateway.realtime.deepgram.listening import FORMAT
from tests.gateway.realtime.deepgram.sockets import all_of, opened
from tests.gateway.running import Running, chunks, running

RATE = 16_000
CLOSE, FINALIZE = '{"type": "CloseStream"}', '{"type": "Finalize"}'
BOTH = f"{FORMAT}&channels=2&multichannel=true"


def call(seconds: float, channels: int = 2) -> bytes:
    """A tone in each channel; the later, the quieter."""
    tone = np.sin(np.arange(round(seconds * RATE)) * 2 * np.pi * 220 / RATE)
    return np.outer(tone, [3000 >> i for i in range(channels)]).astype("<i2").tobytes()


def loudness(gateway: Running) -> list[float]:
    """The peak of what each session was told to hear, in 16 bits."""
    heard: dict[str, float] = {}
    for message in gateway.engine.messages:
        if isinstance(message, AppendAudio) and len(message.samples):
            peak = 32768 * float(np.abs(message.samples).max())
            heard[message.session] = max(heard.get(message.session, 0.0), peak)
    return list(heard.values())


async def test_each_channel_has_its_results() -> None:
    data = call(0.5)
    async with running() as gateway:
        async with opened(gateway, "/v1/listen", BOTH) as socket:
            for piece in [*chunks(data[:10], 1), *chunks(data[10:], 999)]:  # parts of samples
                await socket.send(piece)
            await socket.send(FINALIZE)
            await socket.send('{"type": "KeepAlive"}')
            await socket.send(CLOSE)
            *results, metadata = await all_of(socket, check)
        assert socket.close_code == 1000
        assert sorted(r["channel_index"] for r in results) == [[0, 2], [1, 2]]
        assert {text_of(result) for result in results} == {transcript(8000)}
        assert all(result["from_finalize"] for result in results)
        assert {r["metadata"]["request_id"] for r in results} == {metadata["request_id"]}
        assert (metadata["type"], metadata["channels"], metadata["duration"]) == (
            "Metadata",
            2,
            0.5,
        )
        assert metadata["sha256"] == hashlib.sha256(data).hexdigest()
        assert sorted(loudness(gateway)) == pytest.approx([1500, 3000], abs=2)
        await gateway.engine.wait_for(lambda: not gateway.engine.sessions)


@pytest.mark.parametrize(
    ("channels", "encoding"), [(1, "linear16"), (3, "mulaw"), (16, "linear16")]
)
async def test_any_number_of_channels(channels: int, encoding: str) -> None:
    rate = 8000 if encoding == "mulaw" else RATE
    query = f"encoding={encoding}&sample_rate={rate}&channels={channels}&multichannel=true"
    size = rate // 2 * channels * (1 if encoding == "mulaw" else 2)
    async with running() as gateway:
        async with opened(gateway, "/v1/listen", query) as socket:
            await socket.send(bytes(range(256)) * (size // 256 + 1))
            await socket.send(CLOSE)
            frames = await all_of(socket, check)
        assert frames[-1]["channels"] == channels and socket.close_code == 1000
        told = {tuple(f["channel_index"]) for f in frames if f["type"] == "Results"}
        assert told == {(i, channels) for i in range(channels)}


async def test_settings_hold_for_all_and_are_confirmed_once() -> None:
    async with running() as gateway, opened(gateway, "/v1/listen", BOTH) as socket:
        await socket.send('{"type": "Configure", "keyterms": ["Ada"]}')
        confirmed = check(json.loads(await socket.recv()))
        assert confirmed["type"] == "ConfigureSuccess" and confirmed["keyterms"] == ["Ada"]
        await socket.send(call(0.3))
        await socket.send(CLOSE)
        frames = await all_of(socket, check)
        assert [f["type"] for f in frames] == ["Results", "Results", "Metadata"]
        assert confirmed["request_id"] == frames[-1]["request_id"], "of all of it"


async def test_what_is_wrong_with_a_message_is_told_once() -> None:
    async with running() as gateway, opened(gateway, "/v1/listen", BOTH) as socket:
        for message in ("no json", "no json", '{"type": "Other"}', CLOSE):
            await socket.send(message)
        *errors, metadata = await all_of(socket, check)
        assert metadata["type"] == "Metadata"
        assert [error["type"] for error in errors] == ["Error"] * 3
        descriptions = [error["description"] for error in errors]
        assert descriptions[0] == descriptions[1] != descriptions[2]


async def test_where_a_channel_has_no_place_nobody_comes_in() -> None:
    async with (
        running(GatewayConfig(port=0, max_sessions=2)) as gateway,
        opened(gateway, "/v1/listen", FORMAT) as other,
    ):
        with pytest.raises(InvalidStatus) as raised:
            async with opened(gateway, "/v1/listen", BOTH):
                pass
        response = raised.value.response
        assert response.status_code == 503 and "sessions" in json.loads(response.body)["err_msg"]
        await gateway.engine.wait_for(lambda: len(gateway.engine.sessions) == 1)
        async with opened(gateway, "/v1/listen", FORMAT) as socket:  # the place is free again
            await socket.send(CLOSE)
            await all_of(socket, check)
        await other.send(CLOSE)


@pytest.mark.parametrize(("of_all", "of_one", "most"), [(64, 2, 2), (1, 4, 1), (2, 0, 2)])
async def test_more_channels_than_there_can_be_sessions_are_refused_for_good(
    of_all: int, of_one: int, most: int
) -> None:
    config = GatewayConfig(port=0, max_sessions=of_all, max_client_sessions=of_one)
    async with running(config) as gateway:
        query = f"{FORMAT}&multichannel=true&channels="
        with pytest.raises(InvalidStatus) as raised:
            async with opened(gateway, "/v1/listen", f"{query}{most + 1}"):
                pass
        response = raised.value.response
        assert response.status_code == 400
        message = json.loads(response.body)["err_msg"]
        assert message.startswith(f"channels: expected at most {most} ")
        async with opened(gateway, "/v1/listen", f"{query}{most}") as socket:
            await socket.send(CLOSE)
            assert (await all_of(socket, check))[-1]["channels"] == most


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("channels=2&multichannel=true", "multichannel"),  # a container
        (f"{FORMAT}&channels=17&multichannel=true", "multichannel"),
        (f"{FORMAT}&channels=2&multichannel=maybe", "multichannel"),
    ],
)
async def test_what_cannot_be_had_is_told_before_the_upgrade(query: str, named: str) -> None:
    async with running() as gateway:
        with pytest.raises(InvalidStatus) as raised:
            async with opened(gateway, "/v1/listen", query):
                pass
        response = raised.value.response
        assert response.status_code == 400
        assert json.loads(response.body)["err_msg"].startswith(f"{named}: expected")


async def test_who_is_cut_takes_all_channels_along() -> None:
    async with running() as gateway:
        async with opened(gateway, "/v1/listen", BOTH) as socket:
            await socket.send(call(0.3))
            await gateway.engine.wait_for(lambda: len(gateway.engine.sessions) == 2)
            socket.transport.abort()
            await gateway.engine.wait_for(lambda: not gateway.engine.sessions)


async def test_who_says_nothing_for_too_long_is_closed_with_their_code() -> None:
    async with running(GatewayConfig(port=0, idle_seconds=0.1)) as gateway:
        async with opened(gateway, "/v1/listen", BOTH) as socket:
            await socket.send('{"type": "KeepAlive"}')
            errors = await all_of(socket, check)
        assert {error["variant"] for error in errors} == {"session_idle"}
        assert socket.close_code == 1011 and "NET-0001" in (socket.close_reason or "")


async def test_a_server_that_leaves_tells_all_channels() -> None:
    async with running() as gateway:
        async with opened(gateway, "/v1/listen", BOTH) as socket:
            await socket.send(call(0.5))
            await socket.send(FINALIZE)
            told = [check(json.loads(await socket.recv()))["channel_index"] for _ in range(2)]
            assert sorted(told) == [[0, 2], [1, 2]]
            draining = asyncio.create_task(gateway.services.drain(600.0))
            errors = await all_of(socket, check)
            await draining
        assert [error["variant"] for error in errors] == ["going_away"]
        assert socket.close_code == 1001


async def test_why_it_ends_is_told_behind_the_text_of_all_channels() -> None:
    engine = FakeEngine(hold=True)
    async with running(engine=engine) as gateway, opened(gateway, "/v1/listen", BOTH) as socket:
        await socket.send(call(0.5))
        await socket.send(FINALIZE)
        await engine.wait_for(lambda: sum(isinstance(m, EndTurn) for m in engine.messages) == 2)
        engine.release(1)
        for session in gateway.services.sessions:
            session.depart()
        await engine.wait_for(lambda: len(engine.sessions) == 1)
        engine.release()
        *results, error = await all_of(socket, check)
        assert [text_of(result) for result in results] == [transcript(8000)] * 2
        assert error["variant"] == "going_away" and socket.close_code == 1001
