"""SIGTERM to a real server while people speak: foreign clients lose no word, and it ends well."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from urllib.parse import urlsplit

import numpy as np
import pytest

from lookhear.commands.private_server import ServerProcess
from lookhear.wer import word_errors
from tests.end_to_end.conftest import SERVE, Talk
from tests.gateway.running import Client

PIECE = 2400  # samples of 24 kHz: 0.1 s


@pytest.fixture
def mortal() -> Iterator[ServerProcess]:
    arguments = [*SERVE, "--drain-seconds", "120"]
    with ServerProcess(arguments=arguments, start_seconds=120.0) as process:
        yield process


def client(server: ServerProcess) -> Client:
    host = urlsplit(server.address.base_url).netloc
    return Client(f"ws://{host}/v1/realtime?intent=transcription")


async def speak(client: Client, pcm: np.ndarray, *, paced: bool, said: asyncio.Event) -> None:
    """said: set when half of it was sent."""
    audio = {"input": {"transcription": {"language": "en"}}}
    await client.send("session.update", session={"type": "transcription", "audio": audio})
    loop = asyncio.get_running_loop()
    began = loop.time()
    for first in range(0, len(pcm), PIECE):
        if paced:
            await asyncio.sleep(max(0.0, began + first / 24_000 - loop.time()))
        await client.append(pcm[first : first + PIECE].astype("<i2").tobytes())
        if first >= len(pcm) // 2:
            said.set()


async def texts(client: Client, count: int) -> list[str]:
    """Of the turns, in the order of speaking."""
    by_item: dict[str, str] = {}
    while len(by_item) < count:
        done = await client.until(".completed")
        if done["transcript"]:
            by_item[done["item_id"]] = done["transcript"]
    order = [e["item_id"] for e in client.seen if e["type"] == "input_audio_buffer.committed"]
    return [by_item[item] for item in order if item in by_item]


@pytest.mark.parametrize("paced", [True, False], ids=["paced", "burst"])
async def test_a_foreign_client_loses_no_word(
    paced: bool, server: ServerProcess, mortal: ServerProcess, talks: dict[str, Talk]
) -> None:
    talk = talks["en"]
    # One utterance as it is spoken; or three, and all at once.
    pcm, count = (talk.pcm, 3)
    if paced:
        quiet = np.zeros(24_000, talk.pcm.dtype)
        pcm, count = np.concatenate([talk.pcm[: len(talk.first)], quiet]), 1
    heard = []
    for process in (server, mortal):
        said = asyncio.Event()
        async with client(process) as speaker:
            speaking = asyncio.create_task(speak(speaker, pcm, paced=paced, said=said))
            await said.wait()
            if process is mortal:
                os.kill(mortal.pid, signal.SIGTERM)
            heard.append(" ".join(await texts(speaker, count)))
            await speaking
            if process is mortal:
                while (event := await speaker.receive())["type"] != "error":
                    pass
                assert event["error"]["code"] == "going_away"
                await speaker.socket.wait_closed()
                assert speaker.socket.close_code == 1001
    assert await asyncio.to_thread(mortal.wait) == 0, mortal.log_tail()
    reference = " ".join(u.text for u in talk.utterances[:count])
    assert heard[0] == heard[1] and word_errors(reference, heard[1]).rate <= 0.15, heard
