"""Real sockets of Deepgram's live wires."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from tests.gateway.running import PATIENCE, Running

Frame = dict[str, Any]


def opened(gateway: Running, path: str, query: str, **options: Any) -> connect:
    url = f"ws://127.0.0.1:{gateway.port}{path}?{query}"
    return connect(url, proxy=None, open_timeout=PATIENCE, ping_interval=None, **options)


async def all_of(socket: Any, check: Callable[[Frame], Frame]) -> list[Frame]:
    """Every frame until the socket closes."""
    frames = []
    with pytest.raises(ConnectionClosed):
        async with asyncio.timeout(PATIENCE):
            while True:
                frames.append(check(json.loads(await socket.recv())))
    return frames
