"""The real engine process behind the client: start, work, death, restart, end."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from lookhear.engine.client import replica
from lookhear.engine.client.client import (
    EngineClient,
    EngineRequestError,
    EngineStartError,
    EngineUnavailable,
)
from lookhear.engine.client.local_process import LocalProcess
from lookhear.engine.config import EngineConfig
from lookhear.engine.messages import (
    SAMPLE_RATE,
    AppendAudio,
    EndTurn,
    EngineFailed,
    Event,
    StartTurn,
    TranscribeFile,
    TranscriptionSettings,
    TurnCompleted,
)
from tools.random_checkpoints.whisper import build_random_whisper

LIMIT = 60.0  # seconds for what takes one or two; a busy machine must not fail the test


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_random_whisper(tmp_path_factory.mktemp("whisper"), width=32, heads=2)


def config(folder: Path, **changes: object) -> EngineConfig:
    values: dict[str, object] = {"model": str(folder), "served_name": "m", "threads": 1}
    return EngineConfig(**{**values, "window": "short", **changes})  # type: ignore[arg-type]


def clip(seconds: float) -> np.ndarray:
    loud = np.random.default_rng(0).normal(size=round(seconds * SAMPLE_RATE)) * 0.1
    return loud.astype(np.float32)


async def transcribe(client: EngineClient, session: str) -> TurnCompleted:
    events: asyncio.Queue[Event] = asyncio.Queue()
    client.open_session(session, events.put_nowait)
    # Random weights believe any language, and others if they hear a first part by itself.
    client.send(StartTurn(session, "t", TranscriptionSettings(model="m", language="en")))
    samples = clip(1.0)
    client.send(AppendAudio(session, "t", samples, len(samples)))
    client.send(EndTurn(session, "t"))
    async with asyncio.timeout(LIMIT):
        while not isinstance(event := await events.get(), TurnCompleted):
            pass
    client.close_session(session)
    return event


async def test_a_killed_engine_tells_every_session_and_comes_back(folder: Path) -> None:
    client = EngineClient([config(folder, recover_seconds=0.0)])
    await client.load()
    try:
        before = await transcribe(client, "a")
        told: asyncio.Queue[Event] = asyncio.Queue()
        for session in ("b", "c"):
            client.open_session(session, told.put_nowait)
        client.send(StartTurn("b", "t", TranscriptionSettings(model="m")))
        pid = client.pids["m"]
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        async with asyncio.timeout(LIMIT):
            failures = [await told.get(), await told.get()]
        assert all(isinstance(f, EngineFailed) and f.code == "engine_died" for f in failures)
        assert told.empty()
        with pytest.raises(EngineUnavailable):
            client.send(StartTurn("b", "t2", TranscriptionSettings(model="m")))
        assert [card.id for card in client.models] == ["m"]
        async with asyncio.timeout(LIMIT):
            while not client.is_ready("m"):
                await asyncio.sleep(0.01)
        assert client.pids["m"] != pid
        after = await transcribe(client, "a")
        assert after.text == before.text
    finally:
        await client.close()
    assert not client.is_ready("m")


async def test_a_model_that_is_chosen_is_called_what_it_is_and_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (
        ("HF_HUB_OFFLINE", "1"),
        ("HF_HUB_CACHE", str(tmp_path / "hub")),
        ("XDG_CACHE_HOME", str(tmp_path / "cache")),
    ):
        monkeypatch.setenv(name, value)
    auto = EngineConfig(model="auto", threads=1, recover_seconds=0.0)
    client = EngineClient([auto, EngineConfig(model="null")])
    (null,) = client._fleet.pools["null"].replicas
    null._process = LocalProcess("benchmarks.socket_load.null_engine")
    assert [state.model for state in client.states] == ["auto", "null"]
    await client.load()
    try:
        names = ["demo-whisper", "null"]
        card = client.models[0]
        assert [state.model for state in client.states] == names == list(client.pids)
        assert (card.id, card.checkpoint, card.toy) == ("demo-whisper", "demo-whisper", True)
        assert "openai/whisper-base cannot be had" in card.reason
        assert client.is_ready("demo-whisper") and not client.is_ready("auto")
        told: asyncio.Queue[Event] = asyncio.Queue()
        client.open_session("s", told.put_nowait)
        pid = client.pids["demo-whisper"]
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        async with asyncio.timeout(LIMIT):
            assert isinstance(await told.get(), EngineFailed)
            while not client.is_ready("demo-whisper"):
                await asyncio.sleep(0.01)
        # What it was, it is again; nothing is chosen anew.
        assert (client.models[0].checkpoint, client.models[0].reason) == ("demo-whisper", "")
    finally:
        await client.close()


async def test_an_engine_that_stands_still_is_not_ready_until_it_answers_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(replica, "PATIENCE_SECONDS", 0.3)
    null = EngineConfig(model="null", heartbeat_seconds=0.05)
    client = EngineClient([null], module="benchmarks.socket_load.null_engine")
    await client.load()
    pid = client.pids["null"]
    assert pid is not None
    try:
        told: asyncio.Queue[Event] = asyncio.Queue()
        client.open_session("s", told.put_nowait)
        os.kill(pid, signal.SIGSTOP)
        async with asyncio.timeout(LIMIT):
            while client.is_ready("null"):
                await asyncio.sleep(0.01)
        assert [state.state for state in client.states] == ["not_answering"]
        client.send(StartTurn("s", "t", TranscriptionSettings(model="null")))  # it may come back
        client.send(EndTurn("s", "t"))
        os.kill(pid, signal.SIGCONT)
        async with asyncio.timeout(LIMIT):
            assert isinstance(await told.get(), TurnCompleted)
            while not client.is_ready("null"):
                await asyncio.sleep(0.01)
            while "answers again" not in caplog.text:
                await asyncio.sleep(0.01)
        assert (client.pids["null"], client.states[0].state) == (pid, "ready")
        assert caplog.text.count("does not answer") == 1
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
        await client.close()


async def _sends_while_its_engine_dies() -> None:
    null = EngineConfig(model="null", recover_seconds=0.0)
    client = EngineClient([null], module="benchmarks.socket_load.null_engine")
    await client.load()
    try:
        told: asyncio.Queue[Event] = asyncio.Queue()
        client.open_session("s", told.put_nowait)
        client.send(StartTurn("s", "t", TranscriptionSettings(model="null")))
        pid = client.pids["null"]
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        with suppress(ChildProcessError):  # a thread of asyncio's may have taken notice
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)  # its socket is closed by then
        async with asyncio.timeout(LIMIT):
            while told.empty():
                with suppress(EngineUnavailable):
                    client.send(AppendAudio("s", "t", clip(0.01), 0))
                await asyncio.sleep(0)
        failure = told.get_nowait()
        assert isinstance(failure, EngineFailed) and failure.code == "engine_died"
    finally:
        await client.close()


@pytest.mark.parametrize("module", ["asyncio", "uvloop"])
def test_what_is_sent_to_an_engine_that_just_died_is_lost_or_refused(module: str) -> None:
    """Loops differ in what they make of a socket that is closed already."""
    new_loop = pytest.importorskip(module).new_event_loop
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(_sends_while_its_engine_dies())


async def test_files_and_their_errors(folder: Path) -> None:
    client = EngineClient([config(folder, max_audio_seconds=5.0)])
    await client.load()
    try:
        settings = TranscriptionSettings(model="m")
        done = await client.transcribe_file(TranscribeFile("f", settings, clip(1.0)))
        assert done.duration == 1.0
        with pytest.raises(EngineRequestError, match="at most 5 s"):
            await client.transcribe_file(TranscribeFile("g", settings, clip(6.0)))
        with pytest.raises(EngineUnavailable, match="other"):
            await client.transcribe_file(
                TranscribeFile("h", TranscriptionSettings(model="other"), clip(1.0))
            )
    finally:
        await client.close()


async def test_a_model_that_cannot_be_loaded_is_a_clear_error(folder: Path) -> None:
    with pytest.raises(EngineStartError, match="expected demo-whisper, .*a folder"):
        await EngineClient([config(folder, model="/no/such/folder")]).load()


async def test_two_models_need_two_names(folder: Path) -> None:
    with pytest.raises(ValueError, match="different names"):
        await EngineClient([config(folder), config(folder)]).load()
