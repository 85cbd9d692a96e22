"""What OpenAI's SDKs for JavaScript send over a realtime socket, as `record_realtime.mjs` recorded
it, against the real thing: for Node, for browsers, that of agents, and that of the beta. Every
answer is valid by the models of the openai package."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from websockets.asyncio.client import ClientConnection, connect

from lookhear.commands.private_server import ServerProcess
from lookhear.wer import word_errors
from tests.end_to_end.conftest import Talk
from tests.gateway.strict import check

Frame = dict[str, Any]
RECORDED: list[Frame] = json.loads(
    (Path(__file__).parent / "realtime_sdks.json").read_text("utf-8")
)
(AGENT,) = [client for client in RECORDED if "agents" in client["client"]]
(BETA,) = [client for client in RECORDED if "beta" in client["client"]]
TRANSCRIBES = [client for client in RECORDED if client not in (AGENT, BETA)]
# Those of today send the beta's header, too, when they are told to.
TRANSCRIBES.append({**TRANSCRIBES[0], "headers": BETA["headers"], "client": "with a beta's header"})
COMPLETED = "conversation.item.input_audio_transcription.completed"
PATIENCE = 60.0  # seconds for what takes a few


@asynccontextmanager
async def opened(recorded: Frame, server: ServerProcess) -> AsyncIterator[ClientConnection]:
    """As the SDK connects; its key is in a header, or among the subprotocols, of which one is
    chosen."""
    url, offered = f"ws://127.0.0.1:{server.port}{recorded['path']}", recorded["protocols"]
    async with (
        asyncio.timeout(PATIENCE),
        connect(
            url,
            proxy=None,
            additional_headers=recorded["headers"],
            subprotocols=offered or None,
            user_agent_header=None,
        ) as socket,
    ):
        assert socket.subprotocol == (offered[0] if offered else None)
        yield socket


async def send(socket: ClientConnection, recorded: Frame, audio: bytes) -> None:
    """All that it sent, with this audio in pieces of the size that it had."""
    for event in recorded["before"]:
        await socket.send(json.dumps(event))
    for first in range(0, len(audio), recorded["packet"]):
        piece = base64.b64encode(audio[first : first + recorded["packet"]]).decode()
        await socket.send(json.dumps({**recorded["append"], "audio": piece}))
    for event in recorded["after"]:
        await socket.send(json.dumps(event))


async def received(socket: ClientConnection, is_last: Callable[[Frame], bool]) -> list[Frame]:
    """Frames up to that one, all of them valid."""
    frames: list[Frame] = []
    async for text in socket:
        frames.append(json.loads(text))
        check(frames[-1])
        assert frames[-1]["type"] != "error", frames[-1]
        if is_last(frames[-1]):
            return frames
    raise AssertionError("the server hung up")


@pytest.mark.parametrize("recorded", TRANSCRIBES, ids=lambda recorded: str(recorded["client"]))
async def test_it_transcribes(
    recorded: Frame, server: ServerProcess, talks: dict[str, Talk]
) -> None:
    talk = talks["en"]
    texts: list[str] = []

    def is_last(frame: Frame) -> bool:
        if frame["type"] == COMPLETED:
            texts.append(frame["transcript"])
        return len(texts) == len(talk.utterances)

    async with opened(recorded, server) as socket:
        await send(socket, recorded, talk.pcm.tobytes())
        frames = await received(socket, is_last)
    kinds = [frame["type"] for frame in frames]
    assert kinds[:2] == ["session.created", "session.updated"]
    assert kinds.count("input_audio_buffer.speech_stopped") == len(talk.utterances)
    assert word_errors(talk.text, " ".join(texts)).rate <= 0.15, texts


async def test_the_beta_is_refused_as_openai_does(server: ServerProcess) -> None:
    async with opened(BETA, server) as socket:
        await send(socket, BETA, b"")
        frames = [check(json.loads(await socket.recv())) for _ in range(2)]
    assert [frame["type"] for frame in frames] == ["session.created", "error"]
    assert frames[1]["error"]["code"] == "beta_api_shape_disabled"


async def test_an_agent_is_answered(seeing_server: ServerProcess) -> None:
    """Silence is no question; the text is one."""
    silence = np.zeros(24_000, "<i2").tobytes()
    async with opened(AGENT, seeing_server) as socket:
        await send(socket, AGENT, silence)
        frames = await received(socket, lambda frame: frame["type"] == "response.done")
    response = frames[-1]["response"]
    assert response["status"] == "completed", response
    assert response["output"][0]["content"][0]["text"]
    echoes = [frame["session"] for frame in frames if frame["type"] == "session.updated"]
    assert echoes[0]["instructions"] == AGENT["before"][0]["session"]["instructions"]
    assert not any(frame["type"].startswith("input_audio_buffer") for frame in frames)
