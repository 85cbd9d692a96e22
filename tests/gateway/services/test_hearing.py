"""Live speech has a thread that nothing else uses."""

from __future__ import annotations

import threading

import pytest

from lookhear.gateway.app.app import THREADS
from tests.gateway.running import MANUAL, Running, chunks, tone

pytestmark = pytest.mark.asyncio


@pytest.mark.parametrize("size", [4_800, 40_000], ids=["packets", "large appends"])
async def test_speech_is_heard_while_every_other_thread_is_busy(
    gateway: Running, size: int
) -> None:
    release = threading.Event()
    threads = gateway.services.threads
    held = [threads.submit(release.wait) for _ in range(THREADS + 1)]
    try:
        async with gateway.client() as client:
            await client.update(MANUAL)
            for chunk in chunks(tone(0.8), size):  # little enough to be parsed where it comes
                await client.append(chunk)
            await client.send("input_audio_buffer.commit")
            await client.until("input_audio_buffer.committed")
            await client.until("transcription.completed")
            assert not held[-1].running() and not held[0].done()
    finally:
        release.set()
