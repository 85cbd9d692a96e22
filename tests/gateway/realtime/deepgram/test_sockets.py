"""Deepgram's live wire over real sockets: who is let in, who is not and how it is told, the end."""

from __future__ import annotations

import json
from typing import Any

import pytest
from starlette.datastructures import Headers
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus
from websockets.typing import Subprotocol

from lookhear.gateway.config import GatewayConfig
from tests.gateway.deepgram.frames import check, text_of
from tests.gateway.fake_engine import transcript
from tests.gateway.realtime.deepgram.listening import FORMAT
from tests.gateway.realtime.deepgram.sockets import all_of, opened
from tests.gateway.running import Running, running, tone

KEYS = GatewayConfig(port=0, api_keys=("secret",))
RATE = 16_000


def listening(gateway: Running, query: str = FORMAT, **options: Any) -> connect:
    return opened(gateway, "/v1/listen", query, **options)


async def refused(gateway: Running, query: str = FORMAT, **options: Any) -> tuple[int, Any, Any]:
    """-> status, body, headers"""
    with pytest.raises(InvalidStatus) as raised:
        async with listening(gateway, query, **options):
            pass
    response = raised.value.response
    return response.status_code, json.loads(response.body), response.headers


@pytest.mark.parametrize("end", ['{"type": "CloseStream"}', b""])
async def test_a_stream_is_heard_to_its_end(end: str | bytes) -> None:
    async with running() as gateway:
        async with listening(gateway) as socket:
            await socket.send(tone(0.5, RATE))
            await socket.send('{"type": "Finalize"}')
            await socket.send('{"type": "KeepAlive"}')
            await socket.send(tone(0.25, RATE))
            await socket.send(end)
            first, last, metadata = await all_of(socket, check)
        assert socket.close_code == 1000
        assert text_of(first) == transcript(8000) and first["from_finalize"]
        assert text_of(last) == transcript(4000) and last["speech_final"]
        assert (first["start"], first["duration"]) == (0.0, 0.5)
        assert (last["start"], last["duration"]) == (0.5, 0.25)
        assert metadata["duration"] == 0.75
        await gateway.engine.wait_for(lambda: not gateway.engine.sessions)


@pytest.mark.parametrize("path", ["/v1/listen", "/v2/listen"])
async def test_the_handshake_names_what_has_no_effect(path: str) -> None:
    query = f"{FORMAT}&numerals=true&interim_result=true&mip_opt_out=true&model=fake-english"
    if path == "/v2/listen":
        query += "&eot_threshold=0.7&eager_eot_threshold=0.5&eot_timeout_ms=900"
    async with running() as gateway, opened(gateway, path, query) as socket:
        assert socket.response is not None
        assert socket.response.headers["x-lookhear-ignored"] == "numerals, interim_result"
        assert socket.response.headers["x-lookhear-model"] == "fake-english"


async def test_what_cannot_be_had_is_told_before_the_upgrade() -> None:
    async with running() as gateway:
        status, body, headers = await refused(gateway, f"{FORMAT}&diarize=true")
        assert status == 400
        assert body["err_code"] == "Bad Request" and body["err_msg"].startswith("diarize: ")
        assert headers["dg-error"] == body["err_msg"]
        assert headers["dg-request-id"] == body["request_id"]
        assert not gateway.engine.sessions


@pytest.mark.parametrize(
    "options",
    [
        {"additional_headers": {"authorization": "Token secret"}},
        {"additional_headers": {"authorization": "Bearer secret"}},
        {"subprotocols": [Subprotocol("token"), Subprotocol("secret")]},
        {"subprotocols": [Subprotocol("bearer"), Subprotocol("secret")]},
    ],
)
async def test_the_key_comes_as_their_clients_send_it(options: dict[str, Any]) -> None:
    async with running(KEYS) as gateway:
        async with listening(gateway, **options) as socket:
            offered = options.get("subprotocols")
            assert socket.subprotocol == (offered[0] if offered else None)
            await socket.send('{"type": "CloseStream"}')
            assert len(await all_of(socket, check)) == 1


async def test_who_has_no_key_is_told_so_in_their_words() -> None:
    async with running(KEYS) as gateway:
        for headers in ({}, {"authorization": "Token wrong"}, {"authorization": "Basic secret"}):
            status, body, _ = await refused(gateway, additional_headers=headers)
            assert (status, body["err_code"]) == (401, "INVALID_AUTH")


async def test_a_page_is_told_inside_since_it_sees_nothing_of_a_handshake() -> None:
    async with running(KEYS) as gateway:
        wrong = [Subprotocol("token"), Subprotocol("wrong")]
        async with listening(gateway, subprotocols=wrong) as socket:
            [error] = await all_of(socket, check)
        assert socket.subprotocol == "token"
        assert error["variant"] == "invalid_api_key" and socket.close_code == 1008


async def test_a_client_secret_opens_sessions_of_its_own_wire_only() -> None:
    async with running() as gateway:
        session, now = {"type": "transcription"}, gateway.services.now()
        secret, _ = gateway.services.access.make_secret(Headers(), session, now, 60)
        told = {"authorization": f"Bearer {secret}"}
        status, body, _ = await refused(gateway, additional_headers=told)
        assert status == 401 and "/v1/realtime" in body["err_msg"]


async def test_their_names_of_models_stand_for_the_first_that_hears() -> None:
    async with running() as gateway:
        async with listening(gateway, f"{FORMAT}&model=nova-3") as socket:
            await socket.send(tone(0.5, RATE))
            await socket.send('{"type": "CloseStream"}')
            final, _ = await all_of(socket, check)
        assert final["metadata"]["model_info"]["name"] == "fake/whisper"


async def test_an_engine_that_is_not_up_is_a_503_that_says_when_to_come_back() -> None:
    async with running() as gateway:
        gateway.engine.ready = False
        status, body, headers = await refused(gateway)
        assert (status, body["err_code"]) == (503, "SERVICE_UNAVAILABLE")
        assert headers["retry-after"] == "1"


async def test_who_says_nothing_for_too_long_is_closed_with_their_code() -> None:
    async with running(GatewayConfig(port=0, idle_seconds=0.1)) as gateway:
        async with listening(gateway) as socket:
            await socket.send('{"type": "KeepAlive"}')
            [error] = await all_of(socket, check)
        assert error["variant"] == "session_idle"
        assert socket.close_code == 1011 and "NET-0001" in (socket.close_reason or "")


async def test_who_cannot_come_back_is_not_waited_for() -> None:
    async with running(GatewayConfig(port=0, resume_seconds=600.0)) as gateway:
        async with listening(gateway) as socket:
            await socket.send('{"type": "Finalize"}')
            assert check(json.loads(await socket.recv()))["from_finalize"]
            socket.transport.abort()
            await gateway.engine.wait_for(lambda: not gateway.engine.sessions)
