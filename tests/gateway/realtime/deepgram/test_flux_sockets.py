"""Deepgram's turn-based wire over real sockets: who is let in, who is not, the end."""

from __future__ import annotations

import json
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus
from websockets.typing import Subprotocol

from lookhear.gateway.config import GatewayConfig
from tests.gateway.fake_engine import transcript
from tests.gateway.realtime.deepgram.flux import FORMAT, check, check_order, ended, kinds
from tests.gateway.realtime.deepgram.sockets import all_of, opened
from tests.gateway.running import Running, running, tone

KEYS = GatewayConfig(port=0, api_keys=("secret",))
RATE = 16_000


def listening(gateway: Running, query: str = FORMAT, **options: Any) -> connect:
    return opened(gateway, "/v2/listen", query, **options)


@pytest.mark.parametrize("end", ['{"type": "CloseStream"}', b""])
async def test_a_stream_is_heard_to_its_end(end: str | bytes) -> None:
    async with running() as gateway:
        async with listening(gateway) as socket:
            await socket.send(tone(0.5, RATE))
            await socket.send('{"type": "ForceEndTurn"}')
            await socket.send(tone(0.25, RATE))
            await socket.send(end)
            frames = await all_of(socket, check)
        assert socket.close_code == 1000
        first, last = ended(frames)
        assert (first["transcript"], last["transcript"]) == (transcript(8000), transcript(4000))
        assert (first["audio_window_start"], first["audio_window_end"]) == (0.0, 0.5)
        assert (last["audio_window_start"], last["audio_window_end"]) == (0.5, 0.75)
        assert first["trigger"] == last["trigger"] == "manual"
        check_order(frames)
        await gateway.engine.wait_for(lambda: not gateway.engine.sessions)


async def test_what_cannot_be_had_is_told_before_the_upgrade() -> None:
    async with running() as gateway:
        with pytest.raises(InvalidStatus) as raised:
            async with listening(gateway, f"{FORMAT}&eot_threshold=0.2"):
                pass
        response = raised.value.response
        body = json.loads(response.body)
        assert response.status_code == 400
        assert body["err_code"] == "Bad Request" and body["err_msg"].startswith("eot_threshold: ")
        assert response.headers["dg-error"] == body["err_msg"]
        assert not gateway.engine.sessions


async def test_the_key_comes_as_their_clients_send_it() -> None:
    async with running(KEYS) as gateway:
        told = {"authorization": "Token secret"}
        async with listening(gateway, additional_headers=told) as socket:
            await socket.send('{"type": "CloseStream"}')
            assert kinds(await all_of(socket, check)) == ["Connected"]
        with pytest.raises(InvalidStatus) as raised:
            async with listening(gateway):
                pass
        assert raised.value.response.status_code == 401


async def test_a_page_is_told_inside_since_it_sees_nothing_of_a_handshake() -> None:
    async with running(KEYS) as gateway:
        wrong = [Subprotocol("token"), Subprotocol("wrong")]
        async with listening(gateway, subprotocols=wrong) as socket:
            [error] = await all_of(socket, check)
        assert (error["type"], error["code"]) == ("Error", "INVALID_API_KEY")
        assert socket.close_code == 1008


async def test_who_says_nothing_for_too_long_is_closed_with_their_code() -> None:
    async with running(GatewayConfig(port=0, idle_seconds=0.1)) as gateway:
        async with listening(gateway) as socket:
            await socket.send('{"type": "KeepAlive"}')
            _, error = await all_of(socket, check)
        assert error["code"] == "SESSION_IDLE"
        assert socket.close_code == 1011 and "NET-0001" in (socket.close_reason or "")
