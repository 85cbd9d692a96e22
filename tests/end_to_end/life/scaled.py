"""Engines that come and go while two people speak, which changes no text."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import numpy as np
import pytest
import soxr
from numpy.typing import NDArray

from lookhear.bench.recordings.dataset import Audio, held_out
from lookhear.engine.client import client as client_module
from lookhear.engine.client import scaling
from lookhear.engine.client.client import EngineClient
from lookhear.engine.config import EngineConfig
from lookhear.engine.messages import (
    SAMPLE_RATE,
    AppendAudio,
    EndTurn,
    Event,
    ExpectSpeech,
    StartTurn,
    TranscriptionSettings,
    TurnCompleted,
)

MODEL = "demo-whisper"
Between = Callable[[], Awaitable[None]]


def speech() -> NDArray[np.float32]:
    audio = Audio()
    said = [u for u in held_out() if u.language == "en" and u.seen_voice][:3]
    pcm = np.concatenate([audio.of(utterance) for utterance in said])
    heard = soxr.resample(pcm / np.float32(32768), 24_000, SAMPLE_RATE)
    samples: NDArray[np.float32] = heard.astype(np.float32)
    return samples


async def texts(client: EngineClient, between: Between | None) -> list[str]:
    """Of two sessions, after something happened in the middle of what they say."""
    clip = speech()
    half = len(clip) // 2
    heard: list[asyncio.Queue[Event]] = [asyncio.Queue(), asyncio.Queue()]
    for number, events in enumerate(heard):
        session = f"s{number}"
        client.open_session(session, events.put_nowait)
        settings = TranscriptionSettings(model=MODEL, provisional=True)
        client.send(StartTurn(session, "t", settings))
        client.send(AppendAudio(session, "t", clip[:half], half))
    if between is not None:
        for events in heard:
            await events.get()  # its engine is at work
        await between()
    for number in range(2):
        client.send(AppendAudio(f"s{number}", "t", clip[half:], len(clip)))
        client.send(EndTurn(f"s{number}", "t"))
    said = [await completed(events) for events in heard]
    for number in range(2):
        client.close_session(f"s{number}")
    return said


async def completed(events: asyncio.Queue[Event]) -> str:
    while not isinstance(event := await events.get(), TurnCompleted):
        assert not type(event).__name__.endswith("Failed"), event
    return event.text


async def grows_and_shrinks(config: EngineConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    """config: of one engine, or two."""
    monkeypatch.setattr(scaling, "FEW_SECONDS", 0.0)
    monkeypatch.setattr(client_module, "MOVE_SECONDS", 0.0)  # in mid-speech
    client = EngineClient([config])
    await client.load()
    pool = client._fleet.pool(MODEL)
    crowd: list[str] = []

    async def come_until(holds: Callable[[], bool]) -> None:
        """One after another wants to speak."""
        while not holds():
            crowd.append(f"crowd{len(crowd)}")
            client.open_session(crowd[-1], lambda _: None)
            client.send(ExpectSpeech(crowd[-1], MODEL))
            await asyncio.sleep(0.02)

    async def several() -> None:
        """So many that another engine is started; it comes up, and gets whoever comes next."""
        await come_until(lambda: len(client.pids) > 1)
        while not all(state.state == "ready" for state in client.states):
            await asyncio.sleep(0.02)
        await come_until(lambda: pool.choose() is pool.replicas[1])

    async def alone() -> None:
        """They leave, and it ends: those who speak were there, where there was room."""
        seats = [seat for one in client._listeners.values() for seat in one.seats.values()]
        there = {seat.session for seat in seats if seat.replica and seat.replica.number == 2}
        assert {"s0", "s1"} & there
        for session in crowd:
            client.close_session(session)
        monkeypatch.setattr(scaling, "SPARE_SECONDS", 0.0)
        while len(client.pids) > 1:
            await asyncio.sleep(0.02)

    try:
        undisturbed = await texts(client, None)
        assert undisturbed[0] and undisturbed[0] == undisturbed[1]
        assert await texts(client, several) == undisturbed
        assert await texts(client, alone) == undisturbed
        assert (client.recovery.moved, client.recovery.lost) == (0, 0)
    finally:
        await client.close()
