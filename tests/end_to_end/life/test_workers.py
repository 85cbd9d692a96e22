"""Two gateway processes on one port: sessions on both, and either may die in mid-speech."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import httpx
import numpy as np
import psutil
import pytest
from numpy.typing import NDArray

from lookhear import AsyncClient, Reconnecting, Retry, TextDelta, TurnCompleted
from lookhear.commands.private_server import ServerProcess
from lookhear.wer import word_errors
from tests.end_to_end.conftest import SERVE, Talk
from tests.end_to_end.life.test_drain import client, speak, texts
from tests.end_to_end.life.test_replicas import PATIENCE, PIECE, RATE, counted
from tests.end_to_end.life.test_replicas import speeches as speeches
from tests.end_to_end.life.test_resume import transcribed
from tests.gateway.running import Client

WORKERS = ["--model", "demo-whisper", "--workers", "2", *SERVE]
PATIENT = Retry(tries=400, first=0.2, cap=0.3)


@pytest.fixture(scope="module")
def several() -> Iterator[ServerProcess]:
    with ServerProcess(arguments=WORKERS, start_seconds=PATIENCE) as process:
        yield process


def worker_pids(server: ServerProcess) -> list[int]:
    children = psutil.Process(server.pid).children()
    found = [p for p in children if "lookhear.gateway.commands.worker" in p.cmdline()]
    return [p.pid for p in sorted(found, key=lambda p: p.create_time())]


class Speaker:
    """A client that sends its speech in real time, and goes on when it is cut off."""

    def __init__(self, server: ServerProcess, pcm: NDArray[np.int16]) -> None:
        self._server, self._pcm = server, pcm
        self.is_heard = asyncio.Event()
        self.is_speaking = True
        self.was_cut = False

    async def said(self) -> str:
        turns: list[TurnCompleted] = []
        own = AsyncClient(self._server.address.base_url, retry=PATIENT)
        async for event in own.transcribe(self._spoken(), language="en"):
            if isinstance(event, Reconnecting):
                assert event.lost == 0.0
                self.was_cut = True
            elif isinstance(event, TextDelta):
                self.is_heard.set()
            elif isinstance(event, TurnCompleted):
                turns.append(event)
        return " ".join(t.text.strip() for t in sorted(turns, key=lambda t: t.start) if t.text)

    async def _spoken(self) -> AsyncIterator[bytes]:
        for at in range(0, len(self._pcm), PIECE):
            yield self._pcm[at : at + PIECE].tobytes()
            await asyncio.sleep(PIECE / RATE)
        self.is_speaking = False


async def heard(
    server: ServerProcess, speeches: Sequence[NDArray[np.int16]], victim: int | None = None
) -> list[tuple[str, bool]]:
    """The text of each, and whether it was cut off. victim: the process that is killed as soon as
    all were heard."""
    speakers = [Speaker(server, pcm) for pcm in speeches]
    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
        tasks = [group.create_task(speaker.said()) for speaker in speakers]
        if victim is not None:
            await asyncio.gather(*(speaker.is_heard.wait() for speaker in speakers))
            assert all(speaker.is_speaking for speaker in speakers)
            os.kill(victim, signal.SIGKILL)
    cuts = [speaker.was_cut for speaker in speakers]
    return list(zip([task.result() for task in tasks], cuts, strict=True))


async def ended(server: ServerProcess, sessions: int) -> None:
    """Returns when so many have: a client may know it before the server."""
    async with asyncio.timeout(PATIENCE):
        while counted(server, "sessions_total") < sessions:
            await asyncio.sleep(0)


async def test_who_spoke_to_one_that_dies_goes_on_and_the_others_do_not_notice(
    several: ServerProcess, speeches: list[NDArray[np.int16]]
) -> None:
    workers = worker_pids(several)
    assert len(workers) == 2 == counted(several, "engine_ready")
    undisturbed = await heard(several, speeches)
    assert all(text and not was_cut for text, was_cut in undisturbed)
    await ended(several, len(speeches))
    spoken = sum(map(len, speeches)) / RATE
    assert counted(several, "audio_seconds_total") == pytest.approx(spoken)
    disturbed = await heard(several, speeches, victim=workers[0])
    for (text, was_cut), (reference, _) in zip(disturbed, undisturbed, strict=True):
        # What is said again is said all at once: a closing full stop may come of it, or not.
        assert text == reference or (was_cut and word_errors(reference, text).rate == 0.0), text
    # Both had some of them. How evenly they are dealt out depends on when a worker has told of the
    # connections that ended.
    assert 0 < sum(was_cut for _, was_cut in disturbed) < len(speeches)
    # What the dead one has counted is not lost, whoever is asked.
    await ended(several, 2 * len(speeches))
    assert {counted(several, "sessions_total") for _ in range(4)} == {2 * len(speeches)}
    assert several.log.count("starting it again") == 1


@pytest.mark.parametrize("seed", range(2))
async def test_a_session_that_is_cut_goes_on_whoever_is_reached(
    several: ServerProcess, talks: dict[str, Talk], seed: int
) -> None:
    pcm = talks["en"].pcm.tobytes()
    whole = await transcribed(several, pcm, None)
    assert await transcribed(several, pcm, seed) == whole
    assert counted(several, "resumptions_total") >= 1


@contextlib.asynccontextmanager
async def one_at_each(server: ServerProcess, **options: Any) -> AsyncIterator[list[Client]]:
    """Two clients, of which each has a session at another worker."""
    kept: dict[str, Client] = {}
    async with asyncio.timeout(PATIENCE), contextlib.AsyncExitStack() as stack:
        # One that is started again gets nobody yet.
        while (await asyncio.to_thread(server.address.exchange, "/ready"))[0] != 200:
            pass
        while len(kept) < 2:
            own = client(server)
            own.options |= options
            await stack.enter_async_context(own)
            created = await own.until("session.created")
            token = created["session"]["lookhear"]["resume"]["token"]
            kept.setdefault(token.partition(".")[0], own)
        assert set(kept) == {"1", "2"}
        yield list(kept.values())


async def test_a_client_secret_of_one_opens_sessions_at_both(several: ServerProcess) -> None:
    body = {"session": {"type": "transcription"}}
    url = f"{several.address.base_url}/v1/realtime/client_secrets"
    async with httpx.AsyncClient() as asking:
        secret = (await asking.post(url, json=body)).json()["value"]
    headers = {"authorization": f"Bearer {secret}"}
    async with one_at_each(several, additional_headers=headers) as clients:
        for own in clients:
            await own.append(bytes(4800))
            await own.send("input_audio_buffer.clear")
            await own.until("input_audio_buffer.cleared")


async def test_none_outlives_the_parent(several: ServerProcess) -> None:
    """Though it was killed. The last test of this server."""
    root = psutil.Process(several.pid)
    all_of_them = root.children(recursive=True)
    assert len(all_of_them) >= 4
    root.kill()
    _, alive = await asyncio.to_thread(psutil.wait_procs, all_of_them, PATIENCE)
    assert not alive


async def test_the_end_of_the_parent_drains_them_all(talks: dict[str, Talk]) -> None:
    arguments = [*WORKERS, "--drain-seconds", "120"]
    talk = talks["en"]
    quiet = np.zeros(RATE, talk.pcm.dtype)
    pcm = np.concatenate([talk.pcm[: len(talk.first)], quiet])
    with ServerProcess(arguments=arguments, start_seconds=PATIENCE) as server:
        said = [asyncio.Event(), asyncio.Event()]
        async with one_at_each(server) as speakers:
            speaking = [
                asyncio.create_task(speak(speaker, pcm, paced=True, said=event))
                for speaker, event in zip(speakers, said, strict=True)
            ]
            await asyncio.gather(*(event.wait() for event in said))
            os.kill(server.pid, signal.SIGTERM)
            heard = [await texts(speaker, 1) for speaker in speakers]
            await asyncio.gather(*speaking)
            for speaker in speakers:
                while (event := await speaker.receive())["type"] != "error":
                    pass
                assert event["error"]["code"] == "going_away"
                await speaker.socket.wait_closed()
                assert speaker.socket.close_code == 1001
            assert heard[0] == heard[1]
        assert await asyncio.to_thread(server.wait) == 0, server.log_tail()
