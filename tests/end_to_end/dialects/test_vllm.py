"""vLLM's realtime wire against the real thing, as the example clients that vLLM publishes go about
it: their order of messages, their pieces of audio, what they read of the answers."""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soxr
from numpy.typing import NDArray
from websockets.asyncio.client import ClientConnection, connect

from lookhear.commands.private_server import ServerProcess
from tests.end_to_end.conftest import Talk

PATIENCE = 60.0
# What such programs sent of one utterance, as it was recorded. The microphone's sends half seconds,
# and never that the utterance is over; what it shows are the deltas.
RECORDED = json.loads((Path(__file__).parent / "vllm_clients.json").read_text("utf-8"))
PIECE = 4096  # bytes of each message
SILENCE = 2 * 32_000  # bytes, two seconds
APPEND, COMMIT = "input_audio_buffer.append", "input_audio_buffer.commit"
MANUAL = {
    "type": "transcription",
    "audio": {
        "input": {
            "format": {"type": "audio/pcm", "rate": 16_000},
            "turn_detection": None,
            "transcription": {"model": "demo-whisper"},
        }
    },
}


def sixteen(talk: Talk, number: int) -> bytes:
    """An utterance as such clients send it."""
    said = talk.utterances[number]
    start = round(24_000 * (1 + sum(u.end - u.start + 1 for u in talk.utterances[:number])))
    samples = talk.samples[start : start + round(24_000 * (said.end - said.start))]
    found: NDArray[np.float32] = soxr.resample(samples, 24_000, 16_000)
    return (found.clip(-1, 1) * 32767).astype("<i2").tobytes()


async def send(socket: ClientConnection, type: str, **fields: Any) -> None:
    await socket.send(json.dumps({"type": type, **fields}))


async def append(socket: ClientConnection, audio: bytes) -> None:
    for first in range(0, len(audio), PIECE):
        piece = base64.b64encode(audio[first : first + PIECE]).decode()
        await send(socket, APPEND, audio=piece)


async def until(socket: ClientConnection, type: str) -> dict[str, Any]:
    """The next event of that type, with the deltas before it."""
    deltas = ""
    async with asyncio.timeout(PATIENCE):
        while True:
            event: dict[str, Any] = json.loads(await socket.recv())
            assert event["type"] != "error", event
            if event["type"] == "transcription.delta":
                deltas += event["delta"]
            if event["type"] == type:
                return {**event, "deltas": deltas}


async def openai_text(port: int, audio: bytes) -> str:
    url = f"ws://127.0.0.1:{port}/v1/realtime?intent=transcription"
    async with connect(url, proxy=None) as socket:
        await send(socket, "session.update", session=MANUAL)
        await append(socket, audio)
        await send(socket, COMMIT)
        done = await until(socket, "conversation.item.input_audio_transcription.completed")
        return str(done["transcript"])


@pytest.mark.parametrize("language", ["en", "es"])
async def test_it_hears_what_the_openai_wire_hears(
    server: ServerProcess, talks: dict[str, Talk], language: str
) -> None:
    talk = talks[language]
    async with connect(f"ws://127.0.0.1:{server.port}/v1/realtime", proxy=None) as socket:
        created = json.loads(await socket.recv())
        assert created["type"] == "session.created" and created["id"] and created["created"]
        await send(socket, "session.update", model="demo-whisper")
        async with asyncio.timeout(5.0):  # for which their tests wait
            assert json.loads(await socket.recv())["type"] == "session.updated"
        # Their warm-up: a tenth of a second is said.
        await send(socket, COMMIT, final=False)
        await append(socket, bytes(3200))
        await send(socket, COMMIT, final=True)
        await until(socket, "transcription.done")
        for number in range(2):
            audio = sixteen(talk, number)
            await send(socket, COMMIT)
            await append(socket, audio)
            await send(socket, COMMIT, final=True)
            done = await until(socket, "transcription.done")
            assert done["text"] == done["deltas"] == await openai_text(server.port, audio)
            assert done["text"].strip()


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda recorded: recorded["client"])
async def test_what_the_examples_send_is_answered(
    server: ServerProcess, talks: dict[str, Talk], recorded: dict[str, Any]
) -> None:
    audio, size, said = sixteen(talks["en"], 0), recorded["packet"], talks["en"].utterances[0].text
    sent = audio if recorded["after"] else audio + bytes(SILENCE)  # a microphone goes on and on
    async with connect(f"ws://127.0.0.1:{server.port}/v1/realtime", proxy=None) as socket:
        for message in recorded["before"]:
            await socket.send(message)
        for first in range(0, len(sent), size):
            await send(socket, APPEND, audio=base64.b64encode(sent[first : first + size]).decode())
        for message in recorded["after"]:
            await socket.send(message)
        if recorded["after"]:
            done = await until(socket, "transcription.done")
            text = done["text"]
            assert text == done["deltas"] == await openai_text(server.port, audio)
        else:  # it never says that all was said, and shows deltas alone
            text = ""
            while text.strip() != said:
                text += (await until(socket, "transcription.delta"))["delta"]
                assert said.startswith(text.strip())
    assert text.strip() == said
