"""Two models in one server, each in an engine process of its own: `a` and `b`, the demo twice."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from benchmarks.peers.checkpoints import DEMO_WHISPER
from lookhear.client import AsyncClient
from lookhear.commands.private_server import ServerProcess
from lookhear.errors import ModelNotFound, ServerError
from lookhear.wer import word_errors
from tests.end_to_end.conftest import SERVE, Talk

PATIENCE = 60.0  # seconds for what takes one or two


@pytest.fixture(scope="module")
def folder_of_b(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shutil.copytree(DEMO_WHISPER, tmp_path_factory.mktemp("models") / "b")


@pytest.fixture(scope="module")
def pair(folder_of_b: Path) -> Iterator[ServerProcess]:
    models = ["--model", "a=demo-whisper", "--model", f"b={folder_of_b}", "--strict-models"]
    with ServerProcess(
        arguments=[*models, *SERVE, "--recover-seconds", "0"], start_seconds=120.0
    ) as process:
        yield process


@pytest.fixture
def pair_client(pair: ServerProcess) -> AsyncClient:
    return AsyncClient(pair.address.base_url)


def engine_of(server: ServerProcess, model: str) -> int:
    """The process of one model, told by the configuration on its command line."""
    listing = subprocess.run(
        ["ps", "-A", "-ww", "-o", "pid=,ppid=,command="], capture_output=True, text=True, check=True
    ).stdout
    for line in listing.splitlines():
        pid, parent, command = line.split(maxsplit=2)
        if int(parent) == server.pid and f'"served_name": "{model}"' in command:
            return int(pid)
    raise AssertionError(f"no engine of {model} below {server.pid}:\n{listing}")


def requests_done(server: ServerProcess) -> dict[str, float]:
    """What each engine has done, as the metrics have it; at most a heartbeat old."""
    text = server.address.request("/metrics").decode()
    sample = r'^lookhear_engine_requests\{model="(.*)",replica="1"\} (.*)$'
    found = re.findall(sample, text, re.MULTILINE)
    return {model: float(value) for model, value in found}


async def done_by(server: ServerProcess, model: str, before: dict[str, float]) -> dict[str, float]:
    """The numbers once the model's engine has said that it did something since."""
    async with asyncio.timeout(PATIENCE):
        while (now := requests_done(server)).get(model, -1.0) <= before.get(model, -1.0):
            await asyncio.sleep(0.05)
    return now


def flac(talk: Talk) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, talk.first, 24_000, format="FLAC")
    return file.getvalue()


def test_both_are_served_and_the_first_is_the_default(pair: ServerProcess) -> None:
    assert [model["id"] for model in pair.address.get_json("/v1/models")["data"]] == ["a", "b"]
    ready = pair.address.get_json("/ready")
    assert [(model["name"], model["state"]) for model in ready["models"]] == [
        ("a", "ready"),
        ("b", "ready"),
    ]
    assert engine_of(pair, "a") != engine_of(pair, "b")


async def test_each_request_reaches_the_engine_of_its_model(
    pair: ServerProcess, pair_client: AsyncClient, talks: dict[str, Talk]
) -> None:
    said, file = talks["en"].utterances[0].text, flac(talks["en"])
    for model in ("a", "b"):  # once each has told anything at all
        before = await done_by(pair, model, {model: -1.0})
    for model in ("b", "a"):
        transcript = await pair_client.transcribe_file(file, model=model)
        assert word_errors(said, transcript.text).rate <= 0.15, transcript.text
        after = await done_by(pair, model, before)
        assert after == {**before, model: after[model]}
        before = after
    with pytest.raises(ModelNotFound, match='"a", "b".*"c"'):
        await pair_client.transcribe_file(file, model="c")
    with pytest.raises(ModelNotFound, match='"a", "b".*"c"'):
        await pair_client.transcribe_text(talks["en"].first, rate=24_000, model="c")


class Session:
    """The bare protocol, the client committing."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket

    async def update(self, **transcription: Any) -> str:
        """Returns the model that the server says it uses."""
        given = {"turn_detection": None, "transcription": transcription}
        session = {"type": "transcription", "audio": {"input": given}}
        await self._send("session.update", session=session)
        updated = await self.until("session.updated")
        return str(updated["session"]["audio"]["input"]["transcription"]["model"])

    async def say(self, samples: np.ndarray[Any, Any]) -> None:
        pcm = (samples * 32767).astype("<i2").tobytes()
        await self._send("input_audio_buffer.append", audio=base64.b64encode(pcm).decode())

    async def commit(self) -> str:
        """Returns the transcript."""
        await self._send("input_audio_buffer.commit")
        return str((await self.until(".completed"))["transcript"])

    async def _send(self, type: str, **fields: Any) -> None:
        await self._socket.send(json.dumps({"type": type, **fields}))

    async def until(self, type: str) -> dict[str, Any]:
        async with asyncio.timeout(PATIENCE):
            while True:
                event: dict[str, Any] = json.loads(await self._socket.recv())
                if event["type"].endswith(type):
                    return event
                assert event["type"] != "error", event


def open_session(server: ServerProcess, **query: str) -> connect:
    url = server.address.websocket_url("/realtime", query)
    return connect(url, proxy=None, open_timeout=PATIENCE)


async def test_a_session_may_change_its_model_between_turns(
    pair: ServerProcess, talks: dict[str, Talk]
) -> None:
    talk = talks["en"]
    async with open_session(pair, intent="transcription") as socket:
        session = Session(socket)
        for model in ("b", "a"):
            assert await session.update(model=model) == model
            before = await done_by(pair, model, {model: -1.0})
            await session.say(talk.first)
            text = await session.commit()
            assert word_errors(talk.utterances[0].text, text).rate <= 0.15, text
            await done_by(pair, model, before)


async def test_when_one_engine_dies_the_sessions_of_the_other_go_on(
    pair: ServerProcess, pair_client: AsyncClient, talks: dict[str, Talk], folder_of_b: Path
) -> None:
    """It cannot come back before its checkpoint does."""
    talk = talks["en"]
    half = len(talk.first) // 2
    async with open_session(pair, model="a") as one, open_session(pair, model="b") as two:
        alive, dying = Session(one), Session(two)
        assert await alive.update() == "a" and await dying.update() == "b"
        for session in (alive, dying):
            await session.say(talk.first[:half])
            await session.update()  # answered behind the audio, which its engine has by then
        away = folder_of_b.rename(folder_of_b.with_name("away"))
        os.kill(engine_of(pair, "b"), signal.SIGKILL)
        assert (await dying.until("error"))["error"]["code"] == "engine_died"
        with pytest.raises(ConnectionClosed) as closed:
            await two.recv()
        assert closed.value.rcvd is not None and closed.value.rcvd.code == 1012
        status, body = pair.address.exchange("/ready")
        states = {model["name"]: model["state"] for model in json.loads(body)["models"]}
        assert (status, states) == (503, {"a": "ready", "b": "restarting"})
        with pytest.raises(ServerError, match="b is not ready"):
            await pair_client.transcribe_file(flac(talk), model="b")
        await alive.say(talk.first[half:])
        text = await alive.commit()
        assert word_errors(talk.utterances[0].text, text).rate <= 0.15, text
        assert (await pair_client.transcribe_file(flac(talk), model="a")).text.strip()
    away.rename(folder_of_b)
    async with asyncio.timeout(PATIENCE):
        while pair.address.exchange("/ready")[0] != 200:
            await asyncio.sleep(0.05)
    assert (await pair_client.transcribe_file(flac(talk), model="b")).text.strip()


def test_a_model_that_cannot_be_loaded_is_named_and_ends_the_server() -> None:
    argv = ["--port", "0", "--model", "a=demo-whisper", "--model", "b=/no/such/folder"]
    done = subprocess.run(
        [sys.executable, "-m", "lookhear", "serve", *argv],
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE,
    )
    assert done.returncode == 2
    last = done.stderr.splitlines()[-1]
    assert last.startswith("lookhear serve: cannot load b: ") and "/no/such/folder" in last
    assert "Traceback" not in done.stderr
