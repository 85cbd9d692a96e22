"""Decoders behind the gateway's routes: who leaves takes their work with them, others go on."""

from __future__ import annotations

import asyncio
import io
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import numpy as np
import pytest
import soundfile

from lookhear.gateway.config import GatewayConfig
from tests.gateway.decoding.test_decoders import gone, wav
from tests.gateway.fake_engine import FakeEngine
from tests.gateway.running import PATIENCE, Running, running

pytestmark = pytest.mark.asyncio

BOUNDARY = "----lookhear"


@asynccontextmanager
async def uploading(gateway: Running, file: bytes) -> AsyncIterator[None]:
    """A client that has sent all and waits; it hangs up at the end."""
    body = b"".join(
        (
            f"--{BOUNDARY}\r\nContent-Disposition: form-data; ".encode(),
            b'name="file"; filename="a"\r\n\r\n',
            file,
            f"\r\n--{BOUNDARY}--\r\n".encode(),
        )
    )
    head = (
        "POST /v1/audio/transcriptions HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        f"Content-Type: multipart/form-data; boundary={BOUNDARY}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    _, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    try:
        writer.write(head.encode() + body)
        await writer.drain()
        yield
    finally:
        writer.transport.abort()


def flac_of_silence(seconds: int) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, np.zeros(seconds * 16_000, np.int16), 16_000, format="FLAC")
    return file.getvalue()


async def held(gateway: Running) -> int:
    """The first decoder, stopped at its work."""
    async with asyncio.timeout(PATIENCE):
        while not gateway.services.decoders.pids:
            await asyncio.sleep(0)
    [pid] = gateway.services.decoders.pids
    os.kill(pid, signal.SIGSTOP)
    return pid


async def waiting(gateway: Running, number: int) -> None:
    """Returns when so many files wait for a decoder."""
    async with asyncio.timeout(PATIENCE):
        while gateway.services.decoders.waiting != number:
            await asyncio.sleep(0.001)


async def test_who_hangs_up_takes_decoder_and_place_with_them() -> None:
    async with running(GatewayConfig(port=0, media_workers=1)) as gateway:
        async with uploading(gateway, wav(600.0)):
            pid = await held(gateway)
            async with uploading(gateway, wav(1.0)):
                await waiting(gateway, 1)
            await waiting(gateway, 0)
            os.kill(pid, 0)  # still there
        await gone(pid)


async def test_a_stopped_decoder_holds_up_nobody_else() -> None:
    """Of one client: another of its requests, and a session, whose voice detection is none of the
    decoders' business."""
    engine = FakeEngine()
    async with running(GatewayConfig(port=0, media_workers=4), engine) as gateway:
        async with uploading(gateway, wav(600.0)):
            pid = await held(gateway)
            async with httpx.AsyncClient(
                base_url=gateway.http, trust_env=False, verify=False
            ) as http:
                files = {"file": ("a.wav", wav(1.0))}
                answer = await http.post("/v1/audio/transcriptions", files=files, timeout=PATIENCE)
            assert answer.json()["text"] == "transcribe 1.0 seconds."
        await gone(pid)
    metrics = gateway.services.metrics.render().decode()
    assert 'decoding_jobs_total{kind="recording",outcome="cancelled"} 1.0' in metrics
    assert 'decoding_jobs_total{kind="recording",outcome="done"} 1.0' in metrics
    assert "lookhear_decoding_wait_seconds_count 2.0" in metrics


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="other systems do not limit it")
async def test_a_file_over_a_limit_is_told_which() -> None:
    """An hour of silence as 24-bit FLAC is small; its samples are not."""
    config = GatewayConfig(port=0, media_memory_bytes=256 << 20)
    async with running(config) as gateway:
        async with httpx.AsyncClient(base_url=gateway.http, trust_env=False, verify=False) as http:
            files = {"file": ("a.flac", flac_of_silence(3500))}
            answer = await http.post("/v1/audio/transcriptions", files=files, timeout=PATIENCE * 5)
    error = answer.json()["error"]
    assert (answer.status_code, error["param"], error["code"]) == (400, "file", "invalid_audio")
    assert f"in {256 << 20} bytes of memory; got one that needs more" in error["message"]
