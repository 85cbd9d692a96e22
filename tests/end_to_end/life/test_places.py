"""More speakers than the machine holds, over real sockets: a bound that one alone exceeds."""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus

from lookhear.commands.private_server import ServerProcess
from tests.end_to_end.conftest import Talk

PATIENCE = 60.0


@pytest.fixture(scope="module")
def narrow() -> Iterator[ServerProcess]:
    arguments = ["--model", "demo-whisper", "--threads", "1", "--max-lag", "0.1"]
    with ServerProcess(arguments=arguments, start_seconds=120.0) as process:
        yield process


def live(server: ServerProcess) -> Any:
    _, body = server.address.exchange("/ready")
    return json.loads(body)["models"][0].get("live")


async def told(server: ServerProcess, speakers: int) -> Any:
    """Once the engine has said so."""
    async with asyncio.timeout(PATIENCE):
        while (now := live(server)) is None or now["speakers"] != speakers:
            await asyncio.sleep(0.05)
    return now


async def until(socket: ClientConnection, type: str) -> Any:
    async with asyncio.timeout(PATIENCE):
        while True:
            event = json.loads(await socket.recv())
            assert event["type"] != "error", event
            if event["type"].endswith(type):
                return event


async def test_one_is_heard_and_the_next_is_told_when_to_come_back(
    narrow: ServerProcess, talks: dict[str, Talk]
) -> None:
    url = narrow.address.websocket_url("/realtime", {"intent": "transcription"})
    empty = await told(narrow, 0)
    assert empty["places"] == 1 and empty["predicted_lag"] > empty["max_lag"] == 0.1
    async with connect(url, proxy=None) as first:
        await until(first, "session.created")
        assert (await told(narrow, 1))["places"] == 0
        with pytest.raises(InvalidStatus) as raised:
            await connect(url, proxy=None)
        response = raised.value.response
        assert response.status_code == 503 and response.body is not None
        assert 1 <= int(response.headers["retry-after"]) <= 60
        problem = json.loads(response.body)["error"]
        assert problem["code"] == "too_many_speakers"
        assert re.search(
            r"within 0\.1 s .* take \d+\.\d s.* come back in \d+ s", problem["message"]
        )
        pcm = talks["en"].pcm.astype("<i2").tobytes()
        await first.send(
            json.dumps(
                {
                    "type": "input_audio_buffer.append",
                    "audio": base64.b64encode(pcm).decode(),
                }
            )
        )
        assert (await until(first, ".completed"))["transcript"]
    await told(narrow, 0)
    async with connect(url, proxy=None) as second:
        await until(second, "session.created")
