"""The Python client while the server is killed and started again: speech and a conversation."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator

import pytest

from lookhear import AsyncClient, Reconnecting, Retry, SpeechStarted, TextDelta, TurnCompleted
from lookhear.commands.private_server import ServerProcess
from lookhear.wer import word_errors
from tests.end_to_end.conftest import SEEING, SERVE, Talk
from tests.end_to_end.test_seeing import COLOUR, RECORDINGS, scene

PATIENT = Retry(tries=400, first=0.2, cap=0.3)


@pytest.fixture(scope="module")
def mortal() -> Iterator[ServerProcess]:
    """A server of its own: nobody else is disturbed."""
    with ServerProcess(arguments=[*SEEING, *SERVE], start_seconds=120.0) as process:
        yield process


async def killed_and_started(server: ServerProcess) -> None:
    os.kill(server.pid, signal.SIGKILL)
    await asyncio.to_thread(server.wait)
    await asyncio.to_thread(server.start)


async def test_nothing_said_or_shown_is_lost(mortal: ServerProcess, talks: dict[str, Talk]) -> None:
    client = AsyncClient(mortal.address.base_url, retry=PATIENT)
    talk, heard, back = talks["en"], asyncio.Event(), asyncio.Event()

    async def spoken() -> AsyncIterator[bytes]:
        half = len(talk.pcm) // 2
        yield talk.pcm[:half].tobytes()
        await back.wait()
        yield talk.pcm[half:].tobytes()

    async def listen() -> str:
        lost, turns = None, []
        async for event in client.transcribe(spoken(), language="en"):
            if isinstance(event, TextDelta):
                heard.set()
            elif isinstance(event, Reconnecting):
                lost = lost or event
                assert event.lost == 0.0
            elif isinstance(event, TurnCompleted):
                turns.append(event)
            elif isinstance(event, SpeechStarted):
                assert lost is None or event.item_id not in lost.superseded
        assert lost is not None
        return " ".join(t.text for t in sorted(turns, key=lambda turn: turn.start))

    async with client.conversation() as seen:
        await seen.add_image(scene("green", "purple"))
        assert await seen.add_audio(RECORDINGS / "question-colour.opus") == COLOUR
        listening = asyncio.create_task(listen())
        await heard.wait()
        await killed_and_started(mortal)
        back.set()
        # The question was spoken to a server that is gone; its answer comes from the new one.
        assert (await seen.respond().read()).text == "Green."
        assert seen.reconnects == 1
        await seen.add_text("How many shapes are there?")
        assert (await seen.respond().read()).text == "Two."
        text = await listening
    assert word_errors(talk.text, text).rate <= 0.15, text


async def test_what_the_camera_saw_is_shown_again(mortal: ServerProcess) -> None:
    client = AsyncClient(mortal.address.base_url, retry=PATIENT)
    async with client.conversation() as talk:
        for second in range(3):
            await talk.show_frame(scene("blue", None), float(second))
        await killed_and_started(mortal)
        await talk.add_text(COLOUR)
        assert (await talk.respond().read()).text == "Blue."
        assert talk.reconnects == 1
