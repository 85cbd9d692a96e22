"""How sessions begin and end: capacity, vanishing clients, dead engines, slow readers, shutdown."""

from __future__ import annotations

import base64
import json
import logging
import socket

import pytest

from lookhear.gateway.config import GatewayConfig
from lookhear.gateway.realtime.session.machine import RealtimeProtocol
from tests.gateway.fake_engine import FakeEngine, transcript
from tests.gateway.logged import logged
from tests.gateway.running import MANUAL, Running, running, tone


@pytest.mark.parametrize("seconds", [0.0, 0.05])
async def test_a_client_that_vanishes_frees_its_session(seconds: float) -> None:
    config = GatewayConfig(port=0, resume_seconds=seconds)
    async with running(config) as gateway, gateway.client() as client:
        await client.until("session.created")
        await client.update(MANUAL)
        await client.append(tone(0.5))
        await client.until(".delta")
        assert len(gateway.engine.turns) == 1
        client.socket.transport.abort()  # no close frame
        await gateway.engine.wait_for(lambda: not gateway.engine.sessions)
        assert gateway.engine.turns == {}
        assert gateway.services.sessions == set()


async def test_closing_normally_frees_it_too(gateway: Running) -> None:
    async with gateway.client() as client:
        await client.until("session.created")
    await gateway.engine.wait_for(lambda: not gateway.engine.sessions)
    assert len(gateway.engine.closed_sessions) == 1


async def test_frames_sent_before_created_is_read_are_taken(gateway: Running) -> None:
    async with gateway.client() as client:
        await client.append(tone(0.1))
        await client.send("session.update", session={"type": "transcription", **MANUAL})
        await client.append(tone(0.4))
        await client.send("input_audio_buffer.commit")
        done = await client.until(".completed")
        assert client.types()[0] == "session.created"
        assert done["transcript"] == transcript(8000)


@pytest.mark.parametrize(
    "query", ["intent=transcription&model=fake/whisper", "", "model=fake-english"]
)
async def test_every_way_to_connect_is_a_transcription_session(
    gateway: Running, query: str
) -> None:
    async with gateway.client(query) as client:
        created = await client.until("session.created")
        assert created["session"]["type"] == "transcription"
        model = "fake-english" if "english" in query else "fake/whisper"
        assert created["session"]["audio"]["input"]["transcription"]["model"] == model


async def test_an_unknown_model_in_the_url_is_told_and_can_be_mended() -> None:
    strict = GatewayConfig(port=0, strict_models=True)
    async with running(strict) as gateway, gateway.client("model=gpt-realtime") as client:
        await client.until("session.created")
        problem = await client.receive()
        assert problem["error"]["code"] == "model_not_found"
        updated = await client.update(
            {"audio": {"input": {"transcription": {"model": "fake-english"}}}}
        )
        assert updated["audio"]["input"]["transcription"] == {"model": "fake-english"}


async def test_too_many_sessions() -> None:
    async with running(GatewayConfig(port=0, max_sessions=1)) as gateway:
        async with gateway.client() as first:
            await first.until("session.created")
            status, retry_after, error = await gateway.refused()
            assert (status, error["code"]) == (503, "too_many_sessions")
            assert error["type"] == "server_error"
            assert f"come back in {retry_after} s" in error["message"]
            async with gateway.client(origin=gateway.http) as page:  # sees no handshake's answer
                assert (await page.receive())["error"] == error | {"event_id": None}
                await page.socket.wait_closed()
                assert page.socket.close_code == 1013
        await gateway.engine.wait_for(lambda: not gateway.engine.sessions)
        async with gateway.client() as third:
            await third.until("session.created")


@pytest.mark.parametrize("is_loaded", [True, False])
@pytest.mark.parametrize("query", ["", "intent=transcription", "model=fake/whisper"])
async def test_no_engine_no_session(query: str, is_loaded: bool) -> None:
    """is_loaded: it was, once; else nobody knows yet what it will serve."""
    engine = FakeEngine()
    engine.ready = False
    if not is_loaded:
        engine.models = []
    async with running(engine=engine) as gateway:
        status, retry_after, error = await gateway.refused(query)
        assert (status, error["code"]) == (503, "engine_not_ready")
        assert f"come back in {retry_after} s" in error["message"]
        async with gateway.client(query, origin=gateway.http) as page:
            assert (await page.receive())["error"] == error | {"event_id": None}
            await page.socket.wait_closed()
            assert page.socket.close_code == 1013


async def test_a_dead_engine_ends_every_session_with_one_error(gateway: Running) -> None:
    async with gateway.client() as one, gateway.client() as two:
        for client in (one, two):
            await client.until("session.created")
            await client.update(MANUAL)
            await client.append(tone(0.2))
            await client.until(".delta")
        gateway.engine.die()
        for client in (one, two):
            while (event := await client.receive())["type"] != "error":
                pass
            assert event["error"]["type"] == "server_error"
            await client.socket.wait_closed()
            assert client.socket.close_code == 1012
            assert client.types().count("error") == 1
    await gateway.engine.wait_for(lambda: not gateway.engine.sessions)


async def test_the_death_of_one_model_ends_only_its_sessions(gateway: Running) -> None:
    async with (
        gateway.client("model=fake/whisper") as mine,
        gateway.client("model=fake-english") as other,
        gateway.client("model=fake-english") as moved,  # and has no turn
    ):
        for client in (mine, other, moved):
            await client.until("session.created")
        for client in (mine, other):
            await client.update(MANUAL)
            await client.append(tone(0.2))
            await client.until(".delta")
        back = await moved.update({"audio": {"input": {"transcription": {"model": None}}}})
        assert back["audio"]["input"]["transcription"] == {"model": "fake/whisper"}
        gateway.engine.die("fake/whisper")
        for client in (mine, moved):
            while (event := await client.receive())["type"] != "error":
                pass
            assert event["error"]["code"] == "engine_died"
            await client.socket.wait_closed()
            assert client.socket.close_code == 1012
        await other.append(tone(0.2))
        await other.send("input_audio_buffer.commit")
        assert (await other.until(".completed"))["transcript"] == transcript(6400)
        early = await gateway.refused("model=fake/whisper")
        assert (early.status, early.error["code"]) == (503, "engine_not_ready")
        assert early.retry_after and "fake/whisper" in early.error["message"]
        async with gateway.client() as chooser:  # names its model inside
            await chooser.until("session.created")
            await chooser.update({"audio": {"input": {"transcription": {"model": "fake-english"}}}})
            await chooser.update(MANUAL)
            await chooser.append(tone(0.2))
            await chooser.send("input_audio_buffer.commit")
            assert (await chooser.until(".completed"))["transcript"] == transcript(3200)


async def test_an_engine_that_is_gone_at_a_send(gateway: Running) -> None:
    async with gateway.client() as client:
        await client.until("session.created")
        await client.update(MANUAL)
        gateway.engine.ready = False
        await client.append(tone(0.2))
        problem = await client.receive()
        assert problem["error"]["type"] == "server_error"
        await client.socket.wait_closed()
        assert client.socket.close_code == 1012


async def test_a_bug_ends_one_session_cleanly(
    gateway: Running, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with gateway.client() as client, gateway.client() as neighbour:
        await client.until("session.created")
        await neighbour.until("session.created")

        def broken(*_: object, **__: object) -> None:
            raise ZeroDivisionError("our bug")

        with monkeypatch.context() as patch:
            patch.setattr(RealtimeProtocol, "receive", broken)
            await client.send("input_audio_buffer.clear")
            problem = await client.receive()
        assert problem["error"]["type"] == "server_error"
        assert "our bug" not in problem["error"]["message"]
        await client.socket.wait_closed()
        assert client.socket.close_code == 1011
        await neighbour.update(MANUAL)
    assert "our bug" in caplog.text


async def test_a_reader_that_is_too_slow_is_closed(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "lookhear.gateway")
    async with running(GatewayConfig(port=0, max_outbox_bytes=100_000)) as gateway:
        small = socket.socket()
        small.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        small.connect(("127.0.0.1", gateway.port))
        small.setblocking(False)
        async with gateway.client(sock=small) as client:
            await client.until("session.created")
            client.socket.transport.pause_reading()
            prompt = "x" * 8000  # every update is answered with as much
            update = {"audio": {"input": {"transcription": {"prompt": prompt}}}}
            frame = {"type": "session.update", "session": {"type": "transcription", **update}}
            try:
                for _ in range(200):  # more than the buffers of both sockets hold
                    await client.socket.send(json.dumps(frame))
                await gateway.engine.wait_for(lambda: not gateway.engine.sessions)
            finally:
                client.socket.transport.abort()
            assert gateway.engine.sessions == {}
    (end,) = logged(caplog, "session.end")
    assert end["close_code"] == 1013
    assert end["close_reason"] == "the client reads too slowly"


async def test_a_client_far_ahead_waits_and_loses_nothing() -> None:
    engine = FakeEngine(hold=True)
    config = GatewayConfig(port=0, max_pending_turns=2)
    async with running(config, engine) as gateway:
        async with gateway.client() as client:
            await client.until("session.created")
            await client.update(MANUAL)
            for _ in range(6):
                await client.append(tone(0.2))
                await client.send("input_audio_buffer.commit")
            done = 0
            while done < 6:
                await engine.wait_for(lambda: bool(engine._held))
                assert len(engine._held) <= 2
                done += len(engine._held)
                engine.release()
            items = [(await client.until(".completed"))["item_id"] for _ in range(6)]
            assert len(set(items)) == 6


async def test_recordings_behind_an_open_turn_do_not_keep_it_open() -> None:
    engine = FakeEngine(hold=True, sees=True)
    config = GatewayConfig(port=0, max_pending_turns=2)
    async with running(config, engine) as gateway:
        async with gateway.client("model=fake/vision") as client:
            await client.until("session.created")
            await client.update({"type": "realtime", **MANUAL})
            await client.append(tone(0.2))
            recording = base64.b64encode(tone(0.2)).decode()
            part = {"type": "input_audio", "audio": recording}
            item = {"type": "message", "role": "user", "content": [part] * 2}
            await client.send("conversation.item.create", item=item)
            await client.send("input_audio_buffer.commit")
            await client.until("input_audio_buffer.committed")
            engine.release()
            items = [(await client.until(".completed"))["item_id"] for _ in range(3)]
            assert len(set(items)) == 2


async def test_a_session_expires_when_told_to() -> None:
    async with running(GatewayConfig(port=0, max_session_seconds=0.05)) as gateway:
        async with gateway.client() as client:
            created = await client.until("session.created")
            assert created["session"]["expires_at"] > 1_700_000_000
            problem = await client.receive()
            assert problem["error"]["code"] == "session_expired"
            await client.socket.wait_closed()
            assert client.socket.close_code == 1001


async def test_shutdown_says_goodbye() -> None:
    async with running() as gateway:
        async with gateway.client() as client:
            await client.until("session.created")
            await gateway.stop()
            await client.socket.wait_closed()
            assert client.socket.close_code == 1001
            assert client.socket.close_reason == "server shutting down"
    assert gateway.engine.closed


async def test_what_users_say_is_not_logged(
    gateway: Running, caplog: pytest.LogCaptureFixture
) -> None:
    """Unless somebody debugs."""
    caplog.set_level(logging.DEBUG, "lookhear.gateway")
    secret = "xyzzy"
    async with gateway.client() as client:
        await client.until("session.created")
        for frame in (secret, f'{{"type":"{secret}"}}', f'{{"type":"{secret}","event_id":"e"}}'):
            await client.socket.send(frame)
            assert secret in (await client.receive())["error"]["message"]
    await gateway.engine.wait_for(lambda: not gateway.engine.sessions)
    said = [record for record in caplog.records if secret in str(vars(record))]
    assert len(said) == 3 and {record.levelno for record in said} == {logging.DEBUG}
    told = [record for record in caplog.records if record.message == "session.error"]
    assert len(told) == 3 and {record.levelno for record in told} == {logging.INFO}


async def test_one_log_line_per_session(gateway: Running, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "lookhear.gateway")
    async with gateway.client(user_agent_header="test/1") as client:
        await client.until("session.created")
        await client.update(MANUAL)
        await client.append(tone(0.5))
        await client.send("input_audio_buffer.commit")
        await client.until(".completed")
        await client.send("response.create")
        await client.until("error")
    await gateway.engine.wait_for(lambda: not gateway.engine.sessions)
    (problem,) = logged(caplog, "session.error")
    assert problem["code"] == "unsupported_event"
    (end,) = logged(caplog, "session.end")
    assert end["turns"] == 1
    assert end["audio_seconds"] == 0.5
    assert end["close_code"] == 1000
    assert end["model"] == "fake/whisper"
    assert end["user_agent"] == "test/1"
    assert end["session"].startswith("sess_")
    assert end["bytes_in"] > 24_000
    assert end["bytes_out"] > 500
    assert end["client"].startswith("127.0.0.1:")
