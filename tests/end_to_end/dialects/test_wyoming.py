"""`lookhear wyoming` as a person starts it, before the real server: what the unmodified client of
the package hears, alone and with others, in any format; and what it sent, as it was recorded."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soxr
from numpy.typing import NDArray

from lookhear.bench.recordings.dataset import Audio, Utterance
from lookhear.commands.private_server import ServerProcess
from tests.end_to_end.conftest import Talk

pytest.importorskip("wyoming")

from wyoming.asr import Transcribe, Transcript
from wyoming.audio import AudioChunk, AudioStart, AudioStop
from wyoming.client import AsyncTcpClient
from wyoming.event import async_read_event
from wyoming.info import Describe, Info

PATIENCE = 60.0
RECORDED = json.loads((Path(__file__).parent / "wyoming_client.json").read_text("utf-8"))


@pytest.fixture(scope="module")
def port(server: ServerProcess) -> Iterator[int]:
    command = [sys.executable, "-m", "lookhear", "wyoming", "--uri", "tcp://127.0.0.1:0"]
    command += ["--server", server.address.base_url]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        line = next(line for line in process.stderr if line.startswith("tcp://"))
        try:
            yield int(line.split(": ")[0].rpartition(":")[2])
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE) == 0
            assert "Traceback" not in process.stderr.read()


def spoken(said: Utterance, rate: int) -> NDArray[np.int16]:
    samples = Audio().of(said).astype(np.float32) / 32768
    found: NDArray[np.float32] = soxr.resample(samples, 24_000, rate)
    return (found.clip(-1, 1) * 32767).astype("<i2")


async def ask(port: int, audio: bytes, **format: int) -> list[Any]:
    """A command in Home Assistant's order. -> all that is told of it."""
    client = AsyncTcpClient("127.0.0.1", port, connect_timeout=PATIENCE, read_timeout=PATIENCE)
    async with client:
        await client.write_event(Transcribe(language="en").event())
        await client.write_event(AudioStart(**format).event())
        for first in range(0, len(audio), 2048):
            chunk = AudioChunk(**format, audio=audio[first : first + 2048])
            await client.write_event(chunk.event())
        await client.write_event(AudioStop().event())
        told: list[Any] = []
        while not told or told[-1].type not in ("transcript-stop", "error"):
            told.append(await client.read_event())
        return told


def text_of(told: list[Any]) -> str:
    """The transcript, and what was streamed of it is the same."""
    [whole] = [Transcript.from_event(event) for event in told if event.type == "transcript"]
    streamed = "".join(e.data["text"] for e in told if e.type == "transcript-chunk")
    assert streamed == whole.text and told[0].type == "transcript-start"
    assert whole.language == "en"
    return str(whole.text)


async def test_what_is_served_is_told(port: int) -> None:
    async with AsyncTcpClient("127.0.0.1", port, read_timeout=PATIENCE) as client:
        await client.write_event(Describe().event())
        event = await client.read_event()
    assert event is not None
    [program] = Info.from_event(event).asr
    assert program.supports_transcript_streaming
    [model] = program.models
    assert model.name == "demo-whisper" and {"en", "de", "es"} <= set(model.languages)


async def test_several_clients_at_once_in_several_formats(
    port: int, talks: dict[str, Talk]
) -> None:
    said = talks["en"].utterances
    stereo = np.repeat(spoken(said[1], 44_100), 2).tobytes()
    wide = (spoken(said[2], 48_000).astype("<i4") << 16).tobytes()
    told = await asyncio.gather(
        ask(port, spoken(said[0], 16_000).tobytes(), rate=16_000, width=2, channels=1),
        ask(port, stereo, rate=44_100, width=2, channels=2),
        ask(port, wide, rate=48_000, width=4, channels=1),
    )
    assert [text_of(events) for events in told] == [utterance.text for utterance in said]


async def test_what_the_client_sent_is_answered(port: int, talks: dict[str, Talk]) -> None:
    said, size = talks["en"].utterances[0], RECORDED["packet"]
    audio = spoken(said, 16_000).tobytes()
    audio += bytes(-len(audio) % size)  # all chunks are whole in the recording
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for event in RECORDED["before"]:
        writer.write(event.encode())
    for first in range(0, len(audio), size):
        writer.write(RECORDED["chunk"].encode() + audio[first : first + size])
    for event in RECORDED["after"]:
        writer.write(event.encode())
    told: list[Any] = []
    async with asyncio.timeout(PATIENCE):
        while not told or told[-1].type != "transcript-stop":
            told.append(await async_read_event(reader))
    writer.close()
    await writer.wait_closed()
    assert text_of(told) == said.text
