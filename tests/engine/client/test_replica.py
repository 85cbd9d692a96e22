"""One engine process as the gateway holds it, where there is none to be had."""

from __future__ import annotations

import asyncio
import socket
import sys
from pathlib import Path

import pytest

from lookhear.engine.client.replica import PATIENCE_SECONDS, PATIENCE_STEPS, Replica
from lookhear.engine.config import EngineConfig


def test_a_long_step_is_no_silence() -> None:
    """Of an engine that answers between two steps."""
    replica = Replica(EngineConfig(model="a"), lambda _, event: None)
    replica.silence = PATIENCE_SECONDS
    assert replica.is_answering and not replica.is_up
    replica.silence += 1.0
    assert not replica.is_answering
    replica.longest_step = replica.silence
    assert replica.is_answering
    replica.silence *= PATIENCE_STEPS + 0.1
    assert not replica.is_answering


async def test_a_process_that_cannot_be_started_leaves_nothing_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is tried again for as long as the gateway lives."""
    made: list[socket.socket] = []
    pair = socket.socketpair

    def watched(*kind: int) -> tuple[socket.socket, socket.socket]:
        both = pair(*kind)
        made.extend(both)
        return both

    monkeypatch.setattr(socket, "socketpair", watched)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no python here"))
    replica = Replica(EngineConfig(model="a"), lambda _, event: None)
    with pytest.raises(FileNotFoundError):
        await replica.run(asyncio.Event())
    assert [one.fileno() for one in made] == [-1, -1]
