"""A dialect of one file and one line: other frames, on its own URL or told by the first frame."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from lookhear.engine.messages import ModelCard
from lookhear.gateway.checks.checks import ProtocolError
from lookhear.gateway.realtime import openai
from lookhear.gateway.realtime.dialects import DIALECTS
from lookhear.gateway.realtime.protocol import events
from lookhear.gateway.realtime.protocol.commands import Append, ClientCommand, Commit, Finish
from lookhear.gateway.realtime.protocol.dialect import Dialect, Json
from lookhear.gateway.realtime.settings import SessionSettings, default_settings
from lookhear.gateway.sockets.cutting import WireFrame
from lookhear.gateway.telemetry.ids import IdFactory
from lookhear.media.audio.pcm import AudioFormat
from tests.gateway.fake_engine import transcript
from tests.gateway.running import PATIENCE, Running, running, tone

SIXTEEN = 16_000


class Telegraph(Dialect):
    """Binary frames are PCM of 16 kHz, "STOP" ends a turn and "OVER" the session; what comes back
    is told in two words."""

    path: ClassVar[str] = "/v1/telegraph"

    def __init__(self, query: Mapping[str, str], ids: IdFactory) -> None:
        self.requested_model = query.get("operator")

    @staticmethod
    def recognises(frame: WireFrame) -> bool:
        return frame == "CQ"

    def first_settings(
        self, models: Sequence[ModelCard]
    ) -> tuple[SessionSettings, ProtocolError | None]:
        format = AudioFormat("audio/pcm", SIXTEEN)
        return replace(default_settings(models), format=format, turn_detection=None), None

    def parse(self, frame: WireFrame) -> Sequence[ClientCommand]:
        if isinstance(frame, bytes):
            return (Append(frame),)
        match frame:
            case "CQ":
                return ()
            case "STOP":
                return (Commit(),)
            case "OVER":
                return (Finish(),)
        raise ProtocolError(f"expected STOP or OVER, got {frame}", code="garbled")

    def render(self, event: events.SessionEvent) -> Sequence[Json]:
        match event:
            case events.SessionCreated():
                return [{"say": "ready"}]
            case events.TranscriptDelta():
                return [{"say": "text", "text": event.text}]
            case events.TranscriptDone():
                return [{"say": "turn", "text": event.text}]
            case events.SessionFinished():
                return [{"say": "goodbye", "seconds": event.seconds}]
            case events.Refused(problem):
                return [{"say": problem.code}]
            case _:
                return []


class TelegraphOfOldUrl(Telegraph):
    """The same on the URL of another dialect."""

    path = "/v1/realtime"


@pytest.fixture
async def gateway() -> AsyncIterator[Running]:
    async with running(dialects=(*DIALECTS, Telegraph, TelegraphOfOldUrl)) as gateway:
        yield gateway


def telegraph(gateway: Running, path: str = Telegraph.path) -> connect:
    url = f"ws://127.0.0.1:{gateway.port}{path}"
    return connect(url, proxy=None, open_timeout=PATIENCE, ping_interval=None)


async def heard(socket: ClientConnection) -> dict[str, Any]:
    async with asyncio.timeout(PATIENCE):
        return dict(json.loads(await socket.recv()))


async def speak_and_end(socket: ClientConnection) -> list[dict[str, Any]]:
    """Two turns, the second one ended by the end; -> all frames until the socket closes."""
    await socket.send(tone(0.5, SIXTEEN))
    await socket.send("STOP")
    await socket.send(tone(0.25, SIXTEEN))
    await socket.send("OVER")
    frames = []
    with pytest.raises(ConnectionClosed):
        while True:
            frames.append(await heard(socket))
    assert socket.close_code == 1000
    return frames


def check_story(frames: list[dict[str, Any]]) -> None:
    turns = [frame["text"] for frame in frames if frame["say"] == "turn"]
    assert turns == [transcript(8000), transcript(4000)]
    texts = [frame["text"] for frame in frames if frame["say"] == "text"]
    assert "".join(texts) == "".join(turns)
    assert frames[-1] == {"say": "goodbye", "seconds": 0.75}


async def test_a_turn_is_told_in_frames_of_its_own(gateway: Running) -> None:
    async with telegraph(gateway) as socket:
        assert await heard(socket) == {"say": "ready"}
        check_story(await speak_and_end(socket))
    await gateway.engine.wait_for(lambda: not gateway.engine.sessions)


async def test_errors_are_told_in_it_too(gateway: Running) -> None:
    async with telegraph(gateway) as socket:
        assert await heard(socket) == {"say": "ready"}
        await socket.send("HELLO")
        assert await heard(socket) == {"say": "garbled"}
        await socket.send("STOP")
        assert await heard(socket) == {"say": "input_audio_buffer_commit_empty"}


async def test_the_first_frame_tells_it_from_others_on_the_url(gateway: Running) -> None:
    async with telegraph(gateway, "/v1/realtime") as socket:
        assert (await heard(socket))["type"] == "session.created"
        await socket.send("CQ")
        check_story(await speak_and_end(socket))


async def test_who_is_not_recognised_speaks_the_first_dialect(gateway: Running) -> None:
    async with gateway.client() as client:
        await client.send("input_audio_buffer.clear")
        await client.until("cleared")
        with pytest.raises(AssertionError, match="expected a text frame"):
            await client.socket.send(b"CQ")
            await client.until("never")


def test_the_core_of_a_session_knows_no_dialect() -> None:
    rooms = Path(openai.__file__).parents[1]
    sources = [
        path for path in rooms.rglob("*.py") if path.parent.name not in ("openai", "realtime")
    ]
    assert sources
    knowing = [path.name for path in sources if "realtime.openai" in path.read_text("utf-8")]
    assert knowing == []
