"""An engine is killed in mid-speech: no client notices, and every text is as undisturbed."""

from __future__ import annotations

import asyncio
import io
import os
import re
import signal
from collections.abc import AsyncIterator, Sequence

import httpx
import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray

from lookhear.bench.recordings.dataset import Audio, held_out
from lookhear.client import AsyncClient
from lookhear.commands.private_server import ServerProcess
from lookhear.live.events import Reconnecting, TextDelta, TurnCompleted
from tests.end_to_end.conftest import SERVE, engine_pids

SESSIONS, RATE, PIECE = 4, 24_000, 2_400
PATIENCE = 120.0


@pytest.fixture(scope="module")
def speeches() -> list[NDArray[np.int16]]:
    """Two sentences each, a second of silence around them."""
    audio, silence = Audio(), np.zeros(RATE, "<i2")
    chosen = [u for u in held_out() if u.language == "en" and u.seen_voice]
    pairs = [chosen[2 * k : 2 * k + 2] for k in range(SESSIONS)]
    return [
        np.concatenate([silence, *(piece for u in pair for piece in (audio.of(u), silence))])
        for pair in pairs
    ]


class Speaker:
    """A client that sends its speech in real time."""

    def __init__(self, server: ServerProcess, pcm: NDArray[np.int16]) -> None:
        self._server, self._pcm = server, pcm
        self.is_heard = asyncio.Event()
        self.is_speaking = True

    async def said(self) -> list[str]:
        """The text of each turn, which its deltas add up to."""
        deltas, turns = [], []
        client = AsyncClient(self._server.address.base_url)
        async for event in client.transcribe(self._spoken(), language="en"):
            assert not isinstance(event, Reconnecting), event
            if isinstance(event, TextDelta):
                deltas.append(event.text)
                self.is_heard.set()
            elif isinstance(event, TurnCompleted):
                turns.append(event.text)
        assert "".join(deltas) == "".join(turns)
        return turns

    async def _spoken(self) -> AsyncIterator[bytes]:
        for at in range(0, len(self._pcm), PIECE):
            yield self._pcm[at : at + PIECE].tobytes()
            await asyncio.sleep(PIECE / RATE)
        self.is_speaking = False


async def heard(
    server: ServerProcess, speeches: Sequence[NDArray[np.int16]], victim: int | None = None
) -> list[list[str]]:
    """The texts of each session. victim: the engine that is killed as soon as all were heard."""
    speakers = [Speaker(server, pcm) for pcm in speeches]
    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
        tasks = [group.create_task(speaker.said()) for speaker in speakers]
        if victim is not None:
            await asyncio.gather(*(speaker.is_heard.wait() for speaker in speakers))
            assert all(speaker.is_speaking for speaker in speakers)
            os.kill(victim, signal.SIGKILL)
    return [task.result() for task in tasks]


def counted(server: ServerProcess, name: str) -> float:
    text = server.address.request("/metrics").decode()
    values = re.findall(rf"^lookhear_{name}(?:{{.*}})? (\S+)$", text, re.MULTILINE)
    return sum(map(float, values))


@pytest.mark.parametrize("replicas", [2, 1])
async def test_its_sessions_go_on_and_say_what_they_would_have_said(
    speeches: list[NDArray[np.int16]], replicas: int
) -> None:
    """On another replica, or on the same one when it is back."""
    arguments = [*SERVE, "--model", "demo-whisper", "--replicas", str(replicas)]
    with ServerProcess(arguments=arguments, start_seconds=PATIENCE) as server:
        engines = engine_pids(server)
        assert len(engines) == replicas == counted(server, "engine_ready")
        undisturbed = await heard(server, speeches)
        assert all("".join(turns).strip() for turns in undisturbed)
        assert await heard(server, speeches, victim=engines[-1]) == undisturbed
        # Who was where depends on how long words waited there when a session began.
        moved = range(1, SESSIONS) if replicas > 1 else (SESSIONS,)
        assert counted(server, "recovery_moved") in moved
        assert counted(server, "recovery_lost") == 0
        if replicas == 1:
            os.kill(engine_pids(server)[0], signal.SIGKILL)
            while counted(server, "engine_ready"):
                await asyncio.sleep(0.01)
            await waited_for(server, speeches[0])


async def waited_for(server: ServerProcess, pcm: NDArray[np.int16]) -> None:
    """Who brings a file while there is no engine gets its text when there is one again."""
    file = io.BytesIO()
    soundfile.write(file, pcm, RATE, format="WAV")
    async with httpx.AsyncClient(base_url=server.address.base_url, timeout=PATIENCE) as http:
        answer = await http.post("/v1/audio/transcriptions", files={"file": file.getvalue()})
    assert answer.status_code == 200 and answer.json()["text"]
