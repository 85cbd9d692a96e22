"""Engines on a Ray cluster of two nodes: what becomes of speech when an actor or a node dies."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from lookhear.engine.client.client import EngineClient
from lookhear.engine.client.state import Availability
from lookhear.engine.config import EngineConfig
from tests.end_to_end.life.scaled import MODEL, grows_and_shrinks, texts

pytest.importorskip("ray", reason="the extra [scale] is not installed")
LIMIT = 240.0  # seconds; a busy machine must not fail the test
NODE = {"num_cpus": 1, "object_store_memory": 100 << 20, "include_dashboard": False}


@pytest.fixture
def cluster() -> Iterator[Any]:
    import ray
    from ray.cluster_utils import Cluster

    # The head has no place for an engine, so that both nodes that have one may go.
    cluster = Cluster(initialize_head=True, head_node_args={**NODE, "num_cpus": 0})
    yield cluster
    ray.shutdown()
    cluster.shutdown()


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

            async def kill() -> None:
                pid = next(iter(client.pids.values()))
                assert pid is not None
                os.kill(pid, signal.SIGKILL)

            assert client.recovery.moved == 0
            assert await texts(client, kill) == undisturbed
            assert (moved := client.recovery.moved) >= 1
            while not all(state.state is Availability.READY for state in client.states):
                await asyncio.sleep(0.1)  # the next sessions are to be on both nodes

            async def lose_a_node() -> None:
                await asyncio.to_thread(cluster.remove_node, first)

            assert await texts(client, lose_a_node) == undisturbed
            assert client.recovery.moved > moved and client.recovery.lost == 0
        finally:
            await client.close()


async def test_engines_come_and_go_and_change_no_text(
    cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):
        cluster.add_node(**NODE)
    config = EngineConfig(
        model=MODEL, ray=cluster.address, max_replicas=2, threads=1, heartbeat_seconds=0.1
    )
    async with asyncio.timeout(LIMIT):
        await grows_and_shrinks(config, monkeypatch)


async def test_no_cluster_is_an_error_that_says_so() -> None:
    with pytest.raises(Exception, match=r"nothing answers there") as told:
        await EngineClient([EngineConfig(model=MODEL, ray="127.0.0.1:9")]).load()
    assert "127.0.0.1:9" in str(told.value)
