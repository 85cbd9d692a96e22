"""Every kind of source becomes the same 24 kHz PCM."""

from __future__ import annotations

import asyncio
import io
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from lookhear.errors import NotInstalled, SourceError
from lookhear.sources.audio import Source, at_pace, read_source
from lookhear.sources.microphone import Microphone
from lookhear.sources.pcm import to_pcm


async def read(source: Source, rate: int | None = None) -> NDArray[np.int16]:
    return np.frombuffer(b"".join([p async for p in read_source(source, rate)]), "<i2")


def tone(rate: int, seconds: float = 1.3) -> NDArray[np.float32]:
    return (0.5 * np.sin(np.arange(int(rate * seconds)) * 2 * np.pi * 440 / rate)).astype("f4")


async def test_an_mp3_is_that_of_a_player(tmp_path: Path) -> None:
    """One of few bits, whose frames borrow from those before: no place is damaged between reads."""
    rate = 44_100
    noise = np.random.default_rng(1).normal(size=3 * rate) * np.linspace(0, 0.3, 3 * rate)
    path = tmp_path / "noise.mp3"
    soundfile.write(path, noise, rate, bitrate_mode="VARIABLE", compression_level=0.9)
    whole, _ = soundfile.read(path, dtype="float32")
    np.testing.assert_allclose(await read(path), await read(whole, rate), atol=2)


@pytest.mark.parametrize("rate", [8_000, 16_000, 24_000, 44_100, 48_000])
@pytest.mark.parametrize("form", ["WAV", "FLAC"])
async def test_files_of_any_rate_and_channels(tmp_path: Path, rate: int, form: str) -> None:
    path = tmp_path / "tone"
    left = tone(rate)
    stereo = np.stack([left, np.zeros_like(left)], axis=1)
    soundfile.write(path, stereo, rate, format=form)
    pcm = await read(path)
    assert abs(len(pcm) - 1.3 * 24_000) <= 24
    middle = pcm[6_000:24_000].astype("f4") / 32768
    assert np.abs(middle - tone(24_000)[6_000:24_000] / 2).max() < 0.02
    assert np.array_equal(await read(path.read_bytes()), pcm)
    assert np.array_equal(await read(str(path)), pcm)


async def test_opus_is_read() -> None:
    file = io.BytesIO()
    soundfile.write(file, tone(48_000), 48_000, format="OGG", subtype="OPUS")
    assert abs(len(await read(file.getvalue())) - 1.3 * 24_000) < 2_400


async def test_samples_and_chunks_at_a_rate() -> None:
    samples = tone(16_000)
    pcm = await read(samples, 16_000)
    assert abs(len(pcm) - 1.3 * 24_000) <= 24

    async def chunks() -> AsyncIterator[bytes]:
        data = to_pcm(samples)
        for first in range(0, len(data), 1_001):
            yield data[first : first + 1_001]

    assert np.abs(await read(chunks(), 16_000) - pcm.astype("i4")).max() <= 1


@given(st.binary(max_size=200), st.lists(st.integers(0, 200)))
async def test_any_split_of_chunks_is_the_same_pcm(data: bytes, cuts: list[int]) -> None:
    def chunks() -> Iterator[bytes]:
        bounds = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
        for first, last in zip(bounds, bounds[1:], strict=False):
            yield data[first:last]

    joined = b"".join([p async for p in read_source(chunks())])
    assert joined == data[: len(data) - len(data) % 2]


def test_loud_samples_are_clipped_not_wrapped() -> None:
    pcm = np.frombuffer(to_pcm(np.array([2.0, -2.0, 1.0, -1.0, 0.0], "f4")), "<i2")
    assert pcm.tolist() == [32767, -32768, 32767, -32768, 0]


async def test_what_is_no_number_is_silence_and_says_nothing() -> None:
    """Warnings are errors here."""
    odd = tone(24_000)
    odd[5_000:5_100], odd[6_000], odd[7_000] = np.nan, np.inf, 3e38
    file = io.BytesIO()
    soundfile.write(file, odd, 24_000, format="WAV", subtype="FLOAT")
    pcm = await read(file.getvalue())
    assert not pcm[5_000:5_100].any() and pcm[6_000] == 0 and pcm[7_000] == 32767
    assert np.abs(pcm[:5_000] / 32768 - odd[:5_000]).max() < 1e-4


@pytest.mark.parametrize(("second", "heard"), [(-1.0, 1.0), (1.0, 1.0), (0.0, 0.5), (-0.5, 0.25)])
async def test_channels_that_cancel_each_other_out_are_heard(second: float, heard: float) -> None:
    file = io.BytesIO()
    stereo = np.stack([tone(24_000), second * tone(24_000)], axis=1)
    soundfile.write(file, stereo, 24_000, format="WAV", subtype="FLOAT")
    pcm = await read(file.getvalue())
    assert np.abs(pcm / 32768 - heard * tone(24_000)).max() < 1e-4


async def test_a_source_that_says_nothing_more_can_be_left() -> None:
    """Its thread is none for which Python waits at its end."""
    loop, asked, over = asyncio.get_running_loop(), asyncio.Event(), threading.Event()

    def chunks() -> Iterator[bytes]:
        yield bytes(960)
        loop.call_soon_threadsafe(asked.set)
        over.wait()

    pieces = read_source(chunks())
    assert await anext(pieces) == bytes(960)
    before = set(threading.enumerate())  # the first piece's may be ending still
    waiting = asyncio.ensure_future(anext(pieces))
    await asked.wait()
    left = set(threading.enumerate()) - before
    try:
        waiting.cancel()
        await asyncio.wait([waiting])
        assert [thread.daemon for thread in left] == [True]
    finally:
        over.set()


def test_a_program_ends_that_has_left_its_standard_input() -> None:
    """Which a thread still reads."""
    program = """if True:
        import asyncio, sys
        from lookhear.sources.audio import read_source

        async def main():
            pieces = read_source(iter(lambda: sys.stdin.buffer.read(960), b""))
            assert len(await anext(pieces)) == 960
            waiting = asyncio.ensure_future(anext(pieces))
            await asyncio.wait([waiting], timeout=0.2)
            waiting.cancel()
            await asyncio.wait([waiting])

        asyncio.run(main())
    """
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(bytes(960))
        process.stdin.flush()
        assert process.wait(60) == 0


@pytest.mark.skipif(sys.platform in ("darwin", "win32"), reason="names of files are text there")
async def test_a_name_that_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"bad\xff\xfe.wav")
    soundfile.write(os.fsencode(path), tone(24_000), 24_000, format="WAV")
    assert len(await read(str(path))) == len(tone(24_000))


@pytest.mark.parametrize(
    ("source", "rate", "message"),
    [
        ("/nowhere/talk.wav", None, "no such file"),
        (b"this is no audio at all", None, "expected wav, flac, mp3 or ogg.*, got something else"),
        (b"", None, "got 0 bytes"),
        (b"OggS but not really", None, "got audio/ogg that cannot be decoded here"),
        (np.zeros(10, "f4"), None, "need a rate"),
        (np.zeros((10, 2), "f4"), 16_000, "one-dimensional"),
        (np.zeros(10, "i2"), 16_000, "float"),
        (np.zeros(10, "f4"), 3, "4000 to 384000"),
        ([b"chunks"], 0, "4000 to 384000 Hz, got 0"),
        (["text"], None, "expected bytes of 16-bit PCM, got str"),
        (7, None, "expected a path"),
    ],
)
async def test_what_cannot_be_read_says_so(source: Source, rate: int | None, message: str) -> None:
    with pytest.raises(SourceError, match=message):
        await read(source, rate)


def test_a_microphone_without_its_package_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "sounddevice", None)
    with pytest.raises(NotInstalled, match=r"lookhear\[microphone\]"):
        Microphone().start()


async def test_pace_is_absolute_and_loses_nothing() -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield bytes(range(200)) * 30
        yield bytes(3_001 * 2)

    began = time.monotonic()
    released = [(time.monotonic() - began, piece) async for piece in at_pace(pieces(), 10.0)]
    assert b"".join(p for _, p in released) == bytes(range(200)) * 30 + bytes(6_002)
    position = 0
    for when, piece in released:
        position += len(piece) // 2
        assert when >= position / 240_000 - 1e-3, "released before it was spoken"


class FakeDevice:
    """What sounddevice gives: calls back with blocks, here when the test says so."""

    PortAudioError = RuntimeError
    last: FakeDevice

    def __init__(self, **options: Any) -> None:
        self.options, self.closed = options, False
        FakeDevice.last = self

    RawInputStream = property(lambda self: FakeDevice)

    def start(self) -> None:
        for number in range(5):
            self.options["callback"](bytes([number, 0]) * 480, 480, None, None)

    def close(self) -> None:
        self.closed = True
        self.options["finished_callback"]()


async def test_a_microphone_ends_with_what_was_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sounddevice", FakeDevice())
    microphone = Microphone(device=3)
    assert microphone.start() and not microphone.start()
    assert FakeDevice.last.options["samplerate"] == 24_000
    microphone.stop()
    assert FakeDevice.last.closed
    pcm = await read(microphone)
    assert pcm.tolist() == [n for n in range(5) for _ in range(480)]
    assert not microphone.start(), "stopped is for good"


def test_what_is_recorded_while_it_is_stopped_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sounddevice", FakeDevice())
    microphone = Microphone()
    pieces = iter(microphone)
    assert all(next(pieces) for _ in range(5))
    get = microphone._blocks.get

    def too_early(**_: object) -> bytes:
        monkeypatch.setattr(microphone._blocks, "get", get)
        FakeDevice.last.options["callback"](bytes([7, 0]) * 480, 480, None, None)
        microphone.stop()
        raise queue.Empty

    monkeypatch.setattr(microphone._blocks, "get", too_early)
    assert b"".join(pieces) == bytes([7, 0]) * 480


async def test_a_microphone_that_nobody_reads_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sounddevice", FakeDevice())
    with Microphone(queue_seconds=0.06) as microphone:
        with pytest.raises(SourceError, match="faster than"):
            await read(microphone)


async def test_a_microphone_that_is_gone_fails_behind_what_it_recorded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "sounddevice", FakeDevice())
    heard = bytearray()
    with Microphone() as microphone:
        FakeDevice.last.options["finished_callback"]()
        with pytest.raises(SourceError, match="unplugged"):
            async for piece in read_source(microphone):
                heard += piece
    assert len(heard) == 5 * 960


async def test_a_microphone_that_was_stopped_is_no_source_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "sounddevice", FakeDevice())
    with Microphone() as microphone:
        assert next(iter(microphone))
    with pytest.raises(SourceError, match="for good"):
        await read(microphone)
