"""A session of a real engine over connections that are cut, by a client that is not ours."""

from __future__ import annotations

import asyncio
import base64
import json
import random
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from lookhear.bench.chaos.proxy import Proxy
from lookhear.commands.private_server import ServerProcess
from tests.end_to_end.conftest import Talk

SETTINGS = {"type": "session.update", "session": {"type": "transcription"}}
PATIENCE = 120.0


async def transcribed(server: ServerProcess, pcm: bytes, seed: int | None) -> list[str]:
    """The texts of its turns. seed: of where connections are cut; None: nowhere."""
    draw = random.Random(seed)
    messages: list[dict[str, Any]] = [SETTINGS]
    for at in range(0, len(pcm), 4800):
        audio = base64.b64encode(pcm[at : at + 4800]).decode()
        messages.append({"type": "input_audio_buffer.append", "audio": audio})
    messages.append({"type": "input_audio_buffer.clear"})
    left, cuts = draw.randint(500, 4000), 0

    def passed(size: int) -> None:
        nonlocal left, cuts
        left -= size
        if seed is not None and left <= 0 and cuts < 6:
            left, cuts = draw.randint(500, 4000), cuts + 1
            proxy.cut()

    events: dict[str, dict[str, Any]] = {}
    query, token, taken = "intent=transcription", "", 0
    port = int(server.address.base_url.rpartition(":")[2])

    def is_done() -> bool:
        kinds = [event["type"].rpartition(".")[2] for event in events.values()]
        return "cleared" in kinds and kinds.count("completed") == kinds.count("committed")

    async with Proxy(port, passed) as proxy, asyncio.timeout(PATIENCE):
        while not is_done():
            url = f"ws://127.0.0.1:{proxy.port}/v1/realtime?{query}"
            try:
                async with connect(url, proxy=None) as socket:
                    first = json.loads(await socket.recv())
                    if first["type"] == "lookhear.session.resumed":
                        taken = first["messages"]
                    else:
                        assert not token, "it is the same session"
                        token = first["session"]["lookhear"]["resume"]["token"]
                    last = first["event_id"]
                    sending = asyncio.create_task(send(socket, messages[taken:]))
                    try:
                        while not is_done():
                            event = json.loads(await socket.recv())
                            assert event["event_id"] not in events, "an event came twice"
                            assert event["type"] != "error", event
                            last = event["event_id"]
                            events[last] = event
                    finally:
                        sending.cancel()
                        await asyncio.gather(sending, return_exceptions=True)
                        query = f"lookhear_resume={token}&lookhear_after={last}"
            except (ConnectionClosed, EOFError):
                continue
    assert bool(cuts) == (seed is not None)
    texts = []
    for done in events.values():
        if done["type"].endswith(".completed"):
            mine = [e for e in events.values() if e.get("item_id") == done["item_id"]]
            deltas = "".join(e["delta"] for e in mine if e["type"].endswith(".delta"))
            assert deltas == done["transcript"]
            texts.append(deltas)
    return texts


async def send(socket: Any, messages: list[dict[str, Any]]) -> None:
    for message in messages:
        await socket.send(json.dumps(message))


@pytest.mark.parametrize("seed", range(3))
async def test_cut_anywhere_it_says_the_same(
    server: ServerProcess, talks: dict[str, Talk], seed: int
) -> None:
    pcm = talks["en"].pcm.tobytes()
    whole = await transcribed(server, pcm, None)
    assert len(whole) >= 2
    assert await transcribed(server, pcm, seed) == whole
