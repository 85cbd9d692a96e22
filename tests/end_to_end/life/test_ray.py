"""Engines on a Ray cluster of two nodes: what becomes of speech when an actor or a node dies."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import soxr
from numpy.typing import NDArray

from lookhear.bench.recordings.dataset import Audio, held_out
from lookhear.engine.client.client import EngineClient
from lookhear.engine.client.state import Availability
from lookhear.engine.config import EngineConfig
from lookhear.engine.messages import (
    SAMPLE_RATE,
    AppendAudio,
    EndTurn,
    Event,
    StartTurn,
    TranscriptionSettings,
    TurnCompleted,
)

pytest.importorskip("ray", reason="the extra [scale] is not installed")
LIMIT = 90.0  # seconds; a busy machine must not fail the test
NODE = {"num_cpus": 1, "object_store_memory": 100 << 20, "include_dashboard": False}
MODEL = "demo-whisper"


@pytest.fixture
def cluster() -> Iterator[Any]:
    import ray
    from ray.cluster_utils import Cluster

    # The head has no place for an engine, so that both nodes that have one may go.
    cluster = Cluster(initialize_head=True, head_node_args={**NODE, "num_cpus": 0})
    yield cluster
    ray.shutdown()
    cluster.shutdown()


def speech() -> NDArray[np.float32]:
    audio = Audio()
    said = [u for u in held_out() if u.language == "en" and u.seen_voice][:3]
    pcm = np.concatenate([audio.of(utterance) for utterance in said])
    heard = soxr.resample(pcm / np.float32(32768), 24_000, SAMPLE_RATE)
    samples: NDArray[np.float32] = heard.astype(np.float32)
    return samples


async def texts(client: EngineClient, disturb: Callable[[], object] | None) -> list[str]:
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
    if disturb is not None:
        for events in heard:
            await events.get()  # its engine is at work
        await asyncio.to_thread(disturb)
    for number in range(2):
        client.send(AppendAudio(f"s{number}", "t", clip[half:], len(clip)))
        client.send(EndTurn(f"s{number}", "t"))
    return [await completed(events) for events in heard]


async def completed(events: asyncio.Queue[Event]) -> str:
    while not isinstance(event := await events.get(), TurnCompleted):
        assert not type(event).__name__.endswith("Failed"), event
    return event.text


async def test_an_actor_that_is_killed_and_a_node_that_goes_change_no_text(cluster: Any) -> None:
    first, _ = (cluster.add_node(**NODE) for _ in range(2))
    config = EngineConfig(
        model=MODEL, ray=cluster.address, replicas=2, threads=1, max_lag_seconds=0.0
    )
    client = EngineClient([config])
    async with asyncio.timeout(LIMIT):
        await client.load()
        try:
            undisturbed = await texts(client, None)
            assert undisturbed[0] and undisturbed[0] == undisturbed[1]
            for number in range(2):
                client.close_session(f"s{number}")

            def kill() -> None:
                pid = next(iter(client.pids.values()))
                assert pid is not None
                os.kill(pid, signal.SIGKILL)

            assert client.recovery.moved == 0
            assert await texts(client, kill) == undisturbed
            assert (moved := client.recovery.moved) >= 1
            for number in range(2):
                client.close_session(f"s{number}")
            while not all(state.state is Availability.READY for state in client.states):
                await asyncio.sleep(0.1)  # the next sessions are to be on both nodes
            assert await texts(client, lambda: cluster.remove_node(first)) == undisturbed
            assert client.recovery.moved > moved and client.recovery.lost == 0
        finally:
            await client.close()


async def test_no_cluster_is_an_error_that_says_so() -> None:
    with pytest.raises(Exception, match=r"nothing answers there") as told:
        await EngineClient([EngineConfig(model=MODEL, ray="127.0.0.1:9")]).load()
    assert "127.0.0.1:9" in str(told.value)
