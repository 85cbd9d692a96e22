"""The engine is killed in mid-speech: every client is told, and the gateway serves again."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import signal
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from lookhear.client import AsyncClient
from lookhear.commands.private_server import ServerProcess
from lookhear.errors import ServerError
from lookhear.live.events import Reconnecting, SpeechStarted, TurnCompleted
from lookhear.transport.retry import Retry
from lookhear.wer import word_errors
from tests.end_to_end.conftest import SERVE, Talk, engine_pid


@pytest.fixture(scope="module")
def mortal() -> Iterator[ServerProcess]:
    """A server of its own: nobody else is disturbed."""
    with ServerProcess(
        arguments=[*SERVE, "--recover-seconds", "0"], start_seconds=120.0
    ) as process:
        yield process


async def test_every_client_is_told_and_the_gateway_serves_again(
    mortal: ServerProcess, talks: dict[str, Talk]
) -> None:
    talk = talks["en"]
    told: list[ServerError] = []

    async def spoken_until_it_dies() -> AsyncIterator[bytes]:
        yield talk.pcm[: 2 * 24_000].tobytes()  # into the first utterance
        await died()
        yield talk.pcm[2 * 24_000 :].tobytes()

    async def died() -> None:
        """Another session, with the bare protocol: an error event, then a close."""
        url = mortal.address.websocket_url("/realtime", {"intent": "transcription"})
        async with connect(url, proxy=None, open_timeout=60) as socket:
            audio = base64.b64encode(talk.pcm[: 2 * 24_000].tobytes()).decode()
            await socket.send(json.dumps({"type": "input_audio_buffer.append", "audio": audio}))
            events = []
            try:
                while True:
                    events.append(json.loads(await socket.recv()))
                    if events[-1]["type"] == "session.created":
                        os.kill(engine_pid(mortal), signal.SIGKILL)
            except ConnectionClosed as closed:
                assert closed.rcvd is not None and closed.rcvd.code in (1011, 1012, 1013)
            (error,) = [event["error"] for event in events if event["type"] == "error"]
            assert error["type"] == "server_error" and error["message"]
            told.append(ServerError(error["message"], error["code"]))

    client = AsyncClient(mortal.address.base_url, retry=Retry(tries=100, first=0.2, cap=0.5))
    events = [event async for event in client.transcribe(spoken_until_it_dies())]
    assert told, "the bare session ended without an error"
    lost = next(e for e in events if isinstance(e, Reconnecting))
    before = events[: events.index(lost)]
    started = {e.item_id for e in before if isinstance(e, SpeechStarted)}
    done = {e.item_id for e in before if isinstance(e, TurnCompleted)}
    assert set(lost.superseded) == started - done and lost.lost == 0.0
    turns = [e for e in events if isinstance(e, TurnCompleted) and e.text.strip()]
    text = " ".join(turn.text for turn in sorted(turns, key=lambda turn: turn.start))
    assert word_errors(talk.text, text).rate <= 0.15, text


async def test_ready_sees_an_engine_that_hangs_and_one_that_answers_again(
    mortal: ServerProcess,
) -> None:
    """A load balancer sends nobody to an engine that stands still, though its process lives; who
    only asks whether the gateway lives is answered all the while."""

    async def becomes(status: int) -> dict[str, Any]:
        async with asyncio.timeout(60.0):
            while True:
                code, body = await asyncio.to_thread(mortal.address.exchange, "/ready")
                if code == status:
                    return dict(json.loads(body))
                await asyncio.sleep(0.1)

    await becomes(200)
    pid = engine_pid(mortal)
    os.kill(pid, signal.SIGSTOP)
    try:
        hung = await becomes(503)
        assert [model["state"] for model in hung["models"]] == ["not_answering"]
        assert mortal.address.exchange("/health")[0] == 200
    finally:
        os.kill(pid, signal.SIGCONT)
    await becomes(200)
