"""Decoders: real processes, and files that mean them no good."""

from __future__ import annotations

import asyncio
import gc
import io
import os
import signal
import sys
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
import soundfile

from lookhear.gateway.decoding import results
from lookhear.gateway.decoding.decoder import Limits
from lookhear.gateway.decoding.decoders import Decoders
from lookhear.gateway.decoding.jobs import Encoded
from lookhear.gateway.decoding.parcel import Array, Header
from lookhear.gateway.http.errors import ApiError
from lookhear.gateway.slots import Claim
from lookhear.gateway.telemetry.metrics import Metrics
from lookhear.media.base import MediaError
from lookhear.media.voice.stretches import FILE_CONFIG
from tests.gateway.chatting import png
from tests.gateway.decoding.direct import ANYONE, decode_here

pytestmark = pytest.mark.asyncio

MEMORY = 512 * 1024 * 1024
NOTHING = Encoded(b"")
PICTURE: dict[str, Any] = {"max_pixels": 1 << 20, "max_bytes": None}


class Trial:
    """Decoders with jobs that misbehave, and what they counted."""

    def __init__(self, decoders: Decoders, metrics: Metrics) -> None:
        self.decoders = decoders
        self._metrics = metrics

    async def do(
        self, job: str, encoded: Encoded = NOTHING, claim: Claim = ANYONE, **options: Any
    ) -> tuple[Header, list[Array]]:
        return await self.decoders.run(job, encoded, options, claim, lambda *found: found)

    async def process(self) -> int:
        """The id of that which does the next job."""
        header, _ = await self.do("tell")
        return int(header["pid"])

    def count(self, job: str, outcome: str) -> float:
        labels = {"kind": job, "outcome": outcome}
        name = "lookhear_decoding_jobs_total"
        return self._metrics.registry.get_sample_value(name, labels) or 0.0


@asynccontextmanager
async def trial(workers: int = 1, seconds: float = 60.0) -> AsyncIterator[Trial]:
    metrics = Metrics()
    limits = Limits(MEMORY, seconds)
    with ThreadPoolExecutor(1) as threads:
        decoders = Decoders(workers, limits, metrics, threads, "tests.gateway.decoding.rough_jobs")
        try:
            yield Trial(decoders, metrics)
        finally:
            await decoders.close()


async def gone(pid: int) -> None:
    """Returns when there is no such process; a test that waits for ever fails."""
    async with asyncio.timeout(60):
        while True:
            try:
                os.kill(pid, 0)
            except ProcessLookupError:
                return
            await asyncio.sleep(0.01)


async def busy(decoders: Decoders, number: int) -> list[int]:
    """The processes, when there are so many."""
    async with asyncio.timeout(60):
        while len(decoders.pids) < number:
            await asyncio.sleep(0.01)
    return decoders.pids


def wav(seconds: float, rate: int = 22_050) -> bytes:
    file = io.BytesIO()
    noise = np.random.default_rng(1).normal(size=(int(seconds * rate), 2)) * 0.1
    soundfile.write(file, noise, rate, format="WAV", subtype="PCM_16")
    return file.getvalue()


async def test_nothing_is_kept_of_a_job_that_is_done() -> None:
    """The same process may do a million."""

    def futures() -> int:
        gc.collect()
        # By type: some objects of torch warn when they are asked for their class.
        return sum(issubclass(type(it), asyncio.Future) for it in gc.get_objects())

    async with trial() as it:
        pid, before = await it.process(), futures()
        for _ in range(30):
            assert await it.process() == pid
        assert futures() < before + 10


async def test_a_decoder_gives_what_a_direct_call_gives() -> None:
    recording = {
        "max_seconds": 60.0,
        "max_bytes": None,
        "first_seconds": None,
        "channel": None,
        "voices": asdict(FILE_CONFIG),
    }
    large = Encoded(wav(5.0))
    assert len(large.data) > 256 * 1024  # handed over by a thread
    async with trial() as it:
        run = it.decoders.run
        for encoded in (large, Encoded(wav(0.5))):
            asked = ("recording", encoded, recording, ANYONE, results.recording)
            one, other = await run(*asked), await decode_here(*asked)
            assert np.array_equal(one.samples, other.samples) and one.speech == other.speech
        picture = ("image", Encoded(png(31, 17)), PICTURE, ANYONE, results.picture)
        seen, expected = await run(*picture), await decode_here(*picture)
        assert seen.name == expected.name and np.array_equal(seen.pixels, expected.pixels)
        assert it.count("recording", "done") == 2 and it.count("image", "done") == 1


async def test_what_is_wrong_with_a_file_is_told_and_the_decoder_goes_on() -> None:
    async with trial() as it:
        first = await it.process()
        with pytest.raises(MediaError, match="expected a JPEG, PNG, WebP or GIF image") as caught:
            await it.do("image", Encoded(b"words"), **PICTURE)
        assert caught.value.reason == "not_image" and it.count("image", "refused") == 1
        assert await it.process() == first


async def test_a_decoder_is_one_thread_with_nothing_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOKHEAR_API_KEY", "secret")
    monkeypatch.setenv("SOME_TOKEN", "secret")
    async with trial() as it:
        header, [data] = await it.do("tell", Encoded(b"what was sent"))
        assert data.tobytes() == b"what was sent" and header["threads"] == 1
        assert not {"LOOKHEAR_API_KEY", "SOME_TOKEN"} & set(header["environment"])
        # Its answer may be here before the news of its birth, which come another way.
        assert header["pid"] != os.getpid() and await busy(it.decoders, 1) == [header["pid"]]


@pytest.mark.parametrize("job", ["wait", "spin"])
async def test_who_goes_away_takes_the_decoder_with_them(job: str) -> None:
    async with trial() as it:
        task = asyncio.create_task(it.do(job))
        [pid] = await busy(it.decoders, 1)
        waiting = asyncio.create_task(it.process())
        task.cancel()
        await gone(pid)
        assert await waiting != pid and it.count(job, "cancelled") == 1


async def test_who_goes_away_while_waiting_ends_nothing() -> None:
    async with trial() as it:
        first = asyncio.create_task(it.do("wait"))
        [pid] = await busy(it.decoders, 1)
        second = asyncio.create_task(it.do("tell"))
        while it.decoders.waiting == 0:
            await asyncio.sleep(0)
        second.cancel()
        await asyncio.gather(second, return_exceptions=True)
        assert it.decoders.waiting == 0 and it.decoders.pids == [pid] and not first.done()
        first.cancel()


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="other systems do not limit it")
async def test_memory_has_a_limit() -> None:
    async with trial() as it:
        first = await it.process()
        for job in ("memory", "file"):
            with pytest.raises(MediaError, match=f"in {MEMORY} bytes of memory; got one") as caught:
                await it.do(job, bytes=MEMORY + (64 << 20))
            assert caught.value.reason == "too_much_memory" and it.count(job, "memory") == 1
        assert await it.process() != first
        _, [kept] = await it.do("memory", bytes=1000)
        assert kept.sum() == 1000


async def test_processor_time_has_a_limit() -> None:
    async with trial(seconds=1.0) as it:
        with pytest.raises(MediaError, match="in 1 s of processor time; got one that takes more"):
            await it.do("spin")
        assert it.count("spin", "time") == 1
        assert await it.process()


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS])
async def test_a_file_that_ends_its_decoder_is_refused(number: signal.Signals) -> None:
    async with trial(workers=3) as it:
        other = asyncio.create_task(it.do("wait", claim=Claim("another", "request")))
        [pid] = await busy(it.decoders, 1)
        with pytest.raises(MediaError, match=f"over which the decoder ended .{number.name}"):
            await it.do("signal", signal=int(number))
        assert it.count("signal", "crashed") == 1
        assert not other.done() and it.decoders.pids == [pid]
        other.cancel()


async def test_a_decoder_that_was_killed_is_no_fault_of_the_file() -> None:
    async with trial() as it:
        with pytest.raises(ApiError, match="was ended; try again") as caught:
            await it.do("signal", signal=int(signal.SIGKILL))
        assert caught.value.status == 503 and it.count("signal", "lost") == 1
        assert await it.process()


async def test_a_bug_of_ours_is_logged_with_its_place_and_refuses_the_file(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It ends a session no more than a decoder that crashes does."""
    async with trial() as it:
        with pytest.raises(MediaError, match="over which the decoder failed") as caught:
            await it.do("bug")
        assert caught.value.reason == "unsupported"
        assert it.count("bug", "failed") == 1
        assert await it.process()
    assert "a decoder failed" in caplog.messages
    assert "rough_jobs.py" in caplog.text and "ZeroDivisionError: ours" in caplog.text


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="who started whom is read there")
async def test_without_the_process_they_come_from_decoders_come_from_a_new_one() -> None:
    async with trial() as it:
        task = asyncio.create_task(it.do("wait"))
        [first] = await busy(it.decoders, 1)  # it was started for this job, so it has it
        with open(f"/proc/{first}/stat") as file:
            nursery = int(file.read().rpartition(")")[2].split()[1])
        os.kill(nursery, signal.SIGKILL)
        with pytest.raises(ApiError) as caught:
            await task
        assert caught.value.status == 503
        assert await it.process() != first
        await gone(first)


@pytest.mark.parametrize("workers", [2, 3, 5])
async def test_no_long_job_stops_a_picture_of_the_same_client(workers: int) -> None:
    """Nor, where there are three decoders, the first long job of another client."""
    async with trial(workers=workers) as it:
        long = [
            asyncio.create_task(it.do("wait", claim=Claim("a client", f"request {number}")))
            for number in range(workers + 1)
        ]
        await busy(it.decoders, max(1, workers - 2))
        _, [pixels] = await it.do("image", Encoded(png(31, 17)), ANYONE, **PICTURE)
        assert pixels.shape == (17, 31, 3)
        if workers >= 3:
            await it.do("tell", claim=Claim("another", "request"))
        assert it.decoders.waiting == len(long) - max(1, workers - 2)
        for task in long:
            task.cancel()


async def test_who_was_forked_by_one_that_is_gone_ends_at_once() -> None:
    """It may have its job already: that lies in its socket before it is born."""
    code = "from lookhear.gateway.decoding import nursery; nursery._end_with(0); print('goes on')"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE
    )
    said, _ = await process.communicate()
    assert (process.returncode, said) == (1, b"")


async def test_closing_ends_all() -> None:
    async with trial(workers=3) as it:
        tasks = [
            asyncio.create_task(it.do(job, claim=Claim(job, "request"))) for job in ("wait", "spin")
        ]
        pids = await busy(it.decoders, 2)
    for pid in pids:
        await gone(pid)
    for outcome in await asyncio.gather(*tasks, return_exceptions=True):
        assert isinstance(outcome, ApiError) and outcome.status == 503
