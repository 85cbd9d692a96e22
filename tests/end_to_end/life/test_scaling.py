"""Engines of one machine come and go with the speakers."""

from __future__ import annotations

import asyncio

import pytest

from lookhear.engine.config import EngineConfig
from tests.end_to_end.life.scaled import MODEL, grows_and_shrinks

LIMIT = 120.0  # seconds; a busy machine must not fail the test


async def test_nobody_notices(monkeypatch: pytest.MonkeyPatch) -> None:
    config = EngineConfig(model=MODEL, max_replicas=2, threads=1, heartbeat_seconds=0.1)
    async with asyncio.timeout(LIMIT):
        await grows_and_shrinks(config, monkeypatch)
