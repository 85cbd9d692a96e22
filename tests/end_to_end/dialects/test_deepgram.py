"""Deepgram's wire against the real thing: it hears what OpenAI's hears, word for word."""

from __future__ import annotations

import io
import json
import wave
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from lookhear.bench.recordings.dataset import Audio
from lookhear.client import AsyncClient
from lookhear.commands.private_server import ServerProcess
from lookhear.live.events import TurnCompleted
from tests.end_to_end.conftest import Talk
from tests.end_to_end.dialects.replay import replayed
from tests.gateway.deepgram.frames import check, check_transcript, text_of

QUERY = "model=nova-3&encoding=linear16&sample_rate=24000&language=en-US&interim_results=true"
STREAM = {"headers": {}, "packet": 48_000, "before": [], "after": ['{"type": "CloseStream"}']}
# What the SDKs sent of one utterance by the programs of `test_deepgram_sdks`, as it was recorded.
RECORDED = json.loads((Path(__file__).parent / "deepgram_sdks.json").read_text("utf-8"))
# And with one as a file.
FILES = json.loads((Path(__file__).parent / "deepgram_files.json").read_text("utf-8"))


def apart(talk: Talk) -> Talk:
    """The same utterances, with two seconds of silence around each."""
    audio, silence = Audio(), np.zeros(48_000, "<i2")
    pieces = [piece for said in talk.utterances for piece in (audio.of(said), silence)]
    return replace(talk, pcm=np.concatenate([silence, *pieces]))


async def listen(port: int, talk: Talk) -> list[dict[str, Any]]:
    """-> every frame until the server closes."""
    path = f"/v1/listen?{QUERY}&utterance_end_ms=1000&vad_events=true"
    frames, _ = await replayed({**STREAM, "path": path}, port, talk.pcm.tobytes())
    return [check(frame) for frame in frames]


async def test_it_hears_what_the_openai_wire_hears(
    server: ServerProcess, client: AsyncClient, talks: dict[str, Talk]
) -> None:
    talk = apart(talks["en"])
    stream = client.transcribe(talk.samples, rate=24_000, pace=None, language="en")
    turns = [event async for event in stream if isinstance(event, TurnCompleted)]
    expected = [turn for turn in sorted(turns, key=lambda turn: turn.start) if turn.text.strip()]
    frames = await listen(server.port, talk)
    results = [frame for frame in frames if frame["type"] == "Results"]
    finals = [frame for frame in results if frame["is_final"] and text_of(frame)]
    assert " ".join(map(text_of, finals)) == " ".join(turn.text.strip() for turn in expected)
    ends = [frame for frame in finals if frame["speech_final"]]
    assert len(ends) == len(expected) == len(talk.utterances)
    for frame, turn in zip(ends, expected, strict=True):
        assert abs(frame["start"] + frame["duration"] - turn.end) <= 0.05
    for frame in finals:
        [heard] = frame["channel"]["alternatives"]
        assert 0.0 < heard["confidence"] <= 1.0
        written = "".join(word["punctuated_word"] for word in heard["words"])
        assert written.replace(" ", "") == heard["transcript"].replace(" ", "")
        for word in heard["words"]:
            end = frame["start"] + frame["duration"] + 0.05
            assert frame["start"] - 0.05 <= word["start"] <= word["end"] <= end
    kinds = [frame["type"] for frame in frames]
    assert kinds.count("SpeechStarted") == len(talk.utterances)
    assert kinds.count("UtteranceEnd") == len(talk.utterances)
    assert kinds[-1] == "Metadata"
    assert abs(frames[-1]["duration"] - len(talk.pcm) / 24_000) < 0.01


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda recorded: recorded["client"])
async def test_what_the_sdks_send_is_answered(
    server: ServerProcess, talks: dict[str, Talk], recorded: dict[str, Any]
) -> None:
    said = talks["en"].utterances[0]
    told, code = await replayed(recorded, server.port, Audio().of(said).tobytes())
    frames = [check(frame) for frame in told]
    results = [frame for frame in frames if frame["type"] == "Results"]
    finals = [text_of(frame) for frame in results if frame["is_final"] and text_of(frame)]
    assert " ".join(finals) == said.text
    assert [frame["from_finalize"] for frame in results].count(True) == 1
    assert frames[-1]["type"] == "Metadata" and code == 1000


@pytest.mark.parametrize("recorded", FILES, ids=lambda recorded: recorded["client"])
async def test_a_recording_from_the_sdks_is_answered(
    server: ServerProcess, talks: dict[str, Talk], recorded: dict[str, Any]
) -> None:
    said, file = talks["en"].utterances[0], io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setparams((1, 2, 24_000, 0, "NONE", ""))
        sound.writeframes(Audio().of(said).tobytes())
    address = f"{server.address.base_url}{recorded['path']}"
    async with httpx.AsyncClient(trust_env=False, verify=False, timeout=60) as client:
        answer = await client.post(address, content=file.getvalue(), headers=recorded["headers"])
    assert answer.status_code == 200, answer.text
    told = check_transcript(answer.json())
    assert told["results"]["channels"][0]["alternatives"][0]["transcript"] == said.text
    assert [part["transcript"] for part in told["results"]["utterances"]] == [said.text]
