"""What an SDK once sent over a WebSocket, sent again."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from websockets.asyncio.client import connect

PATIENCE = 60.0  # seconds for what takes one or two


async def replayed(
    recorded: dict[str, Any], port: int, audio: bytes
) -> tuple[list[dict[str, Any]], int | None]:
    """recorded: `path`, `headers`, messages `before` and `after` the audio, and the bytes of a
    `packet` of it -> the frames that came, and the code with which it was closed."""
    frames, size = [], recorded["packet"]
    url, headers = f"ws://127.0.0.1:{port}{recorded['path']}", recorded["headers"]
    async with connect(
        url, proxy=None, additional_headers=headers, user_agent_header=None
    ) as socket:
        for message in recorded["before"]:
            await socket.send(message)
        for first in range(0, len(audio), size):
            await socket.send(audio[first : first + size])
        for message in recorded["after"]:
            await socket.send(message)
        async with asyncio.timeout(PATIENCE):
            async for frame in socket:
                frames.append(json.loads(frame))
    return frames, socket.close_code
