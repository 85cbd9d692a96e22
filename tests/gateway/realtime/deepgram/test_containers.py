"""Audio that comes in a container, as a browser's recorder sends it, on Deepgram's live wires."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from lookhear.engine.messages import SAMPLE_RATE
from lookhear.media.audio.live_container import LiveContainer
from tests.gateway.deepgram.frames import check, text_of
from tests.gateway.fake_engine import transcript
from tests.gateway.realtime.deepgram.flux import check as check_flux
from tests.gateway.realtime.deepgram.sockets import all_of, opened
from tests.gateway.running import chunks, running
from tests.media.audio.recordings import SECONDS, by_ffmpeg, opus_packets, voice

CLOSE = '{"type": "CloseStream"}'
FINALIZE = '{"type": "Finalize"}'

webm = partial(by_ffmpeg, "webm", "libopus", 48000, pipe=True, cluster_time_limit="100")
ogg = partial(by_ffmpeg, "ogg", "libopus", 48000, pipe=True, page_duration="100000")
flac = partial(by_ffmpeg, "flac", "flac", 16000, pipe=True)


async def until(condition: Callable[[], bool]) -> None:
    """Processes begin and end when they do; a test that waits for ever fails."""
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.01)


def heard_of(data: bytes) -> float:
    """Seconds that the first bytes of a recording hold."""
    stream = LiveContainer()
    stream.feed(data)
    return len(stream.take()[0]) / SAMPLE_RATE


@pytest.mark.parametrize(
    ("query", "file"), [("", webm), ("", ogg), ("encoding=ogg-opus", ogg), ("encoding=flac", flac)]
)
async def test_a_recorder_is_heard_to_its_end(query: str, file: Callable[[], bytes]) -> None:
    data = file()
    async with running() as gateway:
        async with opened(gateway, "/v1/listen", query) as socket:
            for piece in chunks(data, 3000):
                await socket.send(piece)
            await socket.send(CLOSE)
            final, metadata = await all_of(socket, check)
        assert socket.close_code == 1000
        assert metadata["duration"] == pytest.approx(SECONDS, abs=0.05)
        assert final["start"] + final["duration"] == pytest.approx(metadata["duration"], abs=1e-3)
        assert text_of(final) == transcript(round(final["duration"] * SAMPLE_RATE))
        await until(lambda: not gateway.services.decoders.pids)  # its decoder goes with it


async def test_what_came_before_a_finalize_is_heard_before_it() -> None:
    data = webm()
    async with running() as gateway, opened(gateway, "/v1/listen", "") as socket:
        await socket.send(data[: len(data) // 2])
        await socket.send(FINALIZE)
        await socket.send(data[len(data) // 2 :])
        await socket.send(CLOSE)
        first, last, metadata = await all_of(socket, check)
        assert first["from_finalize"] and 0 < first["duration"] < SECONDS
        came = heard_of(data[: len(data) // 2])
        assert first["start"] + first["duration"] == pytest.approx(came, abs=1e-3)
        assert last["start"] + last["duration"] == pytest.approx(metadata["duration"], abs=1e-3)


async def test_flux_hears_them_too() -> None:
    async with running() as gateway, opened(gateway, "/v2/listen", "model=fake-english") as socket:
        for piece in chunks(webm(), 2000):
            await socket.send(piece)
        await socket.send(CLOSE)
        connected, *_ = await all_of(socket, check_flux)
        assert connected["type"] == "Connected" and socket.close_code == 1000
        registry = gateway.services.metrics.registry
        seconds = registry.get_sample_value("lookhear_audio_seconds_total", {"way": "realtime"})
        assert seconds == pytest.approx(SECONDS, abs=0.05)


@pytest.mark.parametrize("path", ["/v1/listen?", "/v2/listen?model=fake-english&"])
async def test_packets_of_opus_need_no_container(path: str) -> None:
    url, _, query = path.partition("?")
    async with running() as gateway:
        async with opened(gateway, url, f"{query}encoding=opus&sample_rate=48000") as socket:
            for packet in opus_packets(voice(48000)):
                await socket.send(packet)
            await socket.send(CLOSE)
            *_, last = await all_of(socket, lambda frame: frame)
        assert socket.close_code == 1000 and last["type"] != "Error"
        registry = gateway.services.metrics.registry
        seconds = registry.get_sample_value("lookhear_audio_seconds_total", {"way": "realtime"})
        assert seconds == pytest.approx(SECONDS, abs=0.05)


async def test_who_says_opus_of_a_container_is_heard_all_the_same() -> None:
    async with running() as gateway, opened(gateway, "/v1/listen", "encoding=opus") as socket:
        for piece in chunks(webm(), 3000):
            await socket.send(piece)
        await socket.send(CLOSE)
        *_, metadata = await all_of(socket, check)
        assert metadata["duration"] == pytest.approx(SECONDS, abs=0.05)


@pytest.mark.parametrize("path", ["/v1/listen", "/v2/listen?model=fake-english"])
async def test_what_is_no_recording_is_told_as_theirs_is(path: str) -> None:
    url, _, query = path.partition("?")
    async with running() as gateway:
        async with opened(gateway, url, query) as socket:
            for _ in range(20):
                await socket.send(b"\0\1" * 2000)
            *_, error = await all_of(socket, lambda frame: frame)
        assert error["type"] == "Error" and "unknown data" in error["description"]
        assert socket.close_code == 1008 and (socket.close_reason or "").startswith("DATA-0000")
        await until(lambda: not gateway.services.decoders.pids)


async def test_a_decoder_that_is_lost_ends_its_session_alone() -> None:
    data = webm()
    async with running() as gateway:
        async with opened(gateway, "/v1/listen", "") as other:
            await other.send(data[:8000])
            await until(lambda: bool(gateway.services.decoders.pids))
            async with opened(gateway, "/v1/listen", "") as socket:
                await socket.send(data[:8000])
                decoders = gateway.services.decoders
                await until(lambda: len(decoders.pids) == 2)
                os.kill(decoders.pids[-1], signal.SIGKILL)
                await socket.send(data[8000:])
                *_, error = await all_of(socket, lambda frame: frame)
            assert error["variant"] == "decoder_lost" and socket.close_code == 1008
            await other.send(data[8000:])
            await other.send(CLOSE)
            frames: list[dict[str, Any]] = await all_of(other, check)
        assert frames[-1]["duration"] == pytest.approx(SECONDS, abs=0.05)
