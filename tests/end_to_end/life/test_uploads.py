"""Files that are uploaded, and who speaks meanwhile."""

from __future__ import annotations

import asyncio
import io
import os
import signal
from collections.abc import AsyncIterator
from typing import Any, cast

import httpx
import numpy as np
import pytest_asyncio
import soundfile

from lookhear.client import AsyncClient
from lookhear.engine.client.client import EngineClient
from lookhear.engine.config import EngineConfig
from lookhear.gateway.config import GatewayConfig
from lookhear.live.events import SpeechStarted, SpeechStopped, TurnCompleted
from lookhear.wer import word_errors
from tests.end_to_end.conftest import Talk
from tests.gateway.running import PATIENCE, Running, running


@pytest_asyncio.fixture
async def listening() -> AsyncIterator[Running]:
    """A gateway in this process, with four decoders, and the demo's engine behind it."""
    config = EngineConfig(model="demo-whisper", device="cpu", threads=1, max_lag_seconds=0.0)
    engine = EngineClient([config])
    await engine.load()
    try:
        async with running(GatewayConfig(port=0, media_workers=4), engine=cast(Any, engine)) as it:
            yield it
    finally:
        await engine.close()


def silence(minutes: int) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, np.zeros(minutes * 60 * 16_000, np.int16), 16_000, format="WAV")
    return file.getvalue()


async def test_who_speaks_is_heard_though_no_upload_gets_anywhere(
    listening: Running, talks: dict[str, Talk]
) -> None:
    """Two uploads are held while they are decoded; a live session goes from its first word to its
    last text meanwhile; and then they end, too."""
    talk, held = talks["en"], set[int]()
    async with httpx.AsyncClient(
        base_url=listening.http, trust_env=False, verify=False, timeout=None
    ) as http:
        files = {"file": ("long.wav", silence(10))}
        path = "/v1/audio/transcriptions"
        uploads = [asyncio.create_task(http.post(path, files=files)) for _ in range(2)]
        try:
            async with asyncio.timeout(PATIENCE):
                while len(held) < 2:
                    for pid in set(listening.services.decoders.pids) - held:
                        os.kill(pid, signal.SIGSTOP)
                        held.add(pid)
                    await asyncio.sleep(0)
            client = AsyncClient(listening.http)
            stream = client.transcribe(talk.samples, rate=24_000, language="en")
            events = [event async for event in stream]
            assert not any(upload.done() for upload in uploads)
        finally:
            for pid in held:
                os.kill(pid, signal.SIGCONT)
        turns = [event for event in events if isinstance(event, TurnCompleted)]
        assert word_errors(talk.text, " ".join(turn.text for turn in turns)).rate <= 0.15
        for kind in (SpeechStarted, SpeechStopped):
            assert any(isinstance(event, kind) for event in events)
        answers = await asyncio.gather(*uploads)
    assert [answer.status_code for answer in answers] == [200, 200]
    assert [answer.json()["text"] for answer in answers] == ["", ""]
