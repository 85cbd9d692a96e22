"""Sound from a pipe: any WAV that ffmpeg writes, bare samples, and what is neither."""

from __future__ import annotations

import io
import struct
from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from lookhear.errors import SourceError
from lookhear.sources import pcm_stream
from lookhear.sources.pcm_stream import read_stream
from lookhear.sources.raw import RawConverter

SAMPLES: NDArray[np.int16] = (1000 * np.sin(np.arange(2400) / 7)).astype("<i2")


async def blocks(data: bytes, size: int) -> AsyncIterator[bytes]:
    for first in range(0, len(data), size):
        yield data[first : first + size]


async def read(data: bytes, rate: int | None = None, size: int = 4096) -> NDArray[np.int16]:
    return np.frombuffer(b"".join([p async for p in read_stream(blocks(data, size), rate)]), "<i2")


def wav(samples: NDArray[Any], rate: int = 24_000, subtype: str = "PCM_16") -> bytes:
    file = io.BytesIO()
    soundfile.write(file, samples, rate, format="WAV", subtype=subtype)
    return file.getvalue()


@given(st.integers(1, 100))
async def test_bare_samples_cut_anywhere(size: int) -> None:
    assert (await read(SAMPLES.tobytes(), size=size) == SAMPLES).all()


@given(st.integers(1, 100))
async def test_a_wav_cut_anywhere(size: int) -> None:
    assert (await read(wav(SAMPLES), size=size) == SAMPLES).all()


def wav_head(size: int) -> bytes:
    """With a list before the samples, of which there are so many bytes."""
    form = struct.pack("<HHIIHH", 1, 1, 24_000, 48_000, 2, 16)
    head = b"RIFF" + struct.pack("<I", size) + b"WAVEfmt " + struct.pack("<I", 16) + form
    return head + b"LIST" + struct.pack("<I", 5) + b"INFOx\0" + b"data" + struct.pack("<I", size)


@pytest.mark.parametrize("size", [0, 0xFFFFFFFF])
async def test_a_wav_of_unknown_length_with_a_list_before_the_samples(size: int) -> None:
    assert (await read(wav_head(size) + SAMPLES.tobytes()) == SAMPLES).all()


async def more_than_a_size_can_say(block: bytes) -> AsyncIterator[bytes]:
    yield wav_head(0x7FFFF000)
    while True:
        yield block


async def test_what_sox_records_into_a_pipe_has_no_end_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Silent(RawConverter):
        """It hears nothing: two GiB of samples would take long."""

        def feed(self, data: bytes, *, last: bool = False) -> bytes:
            return b"" if last else b"\0\0"

    monkeypatch.setattr(pcm_stream, "RawConverter", Silent)
    pieces = read_stream(more_than_a_size_can_say(bytes(1 << 26)), None)
    for _ in range(40):  # of 64 MiB each
        assert await anext(pieces) == b"\0\0"


async def test_what_follows_the_samples_is_not_heard() -> None:
    assert (await read(wav(SAMPLES) + b"LIST" + bytes(100)) == SAMPLES).all()


async def test_channels_are_mixed_and_floats_taken() -> None:
    stereo = np.stack([SAMPLES, SAMPLES], 1)
    assert abs((await read(wav(stereo))).astype(int) - SAMPLES).max() <= 1
    heard = await read(wav(stereo / 32768, subtype="FLOAT"))
    assert abs(heard.astype(int) - SAMPLES).max() <= 1


@pytest.mark.parametrize(
    ("subtype", "off"), [("PCM_U8", 260), ("PCM_16", 1), ("PCM_24", 1), ("PCM_32", 1)]
)
@pytest.mark.parametrize("channels", [1, 2])
async def test_whole_numbers_of_any_width(subtype: str, off: int, channels: int) -> None:
    several = np.stack([SAMPLES] * channels, 1)
    heard = await read(wav(several, subtype=subtype), size=1001)
    assert abs(heard.astype(int) - SAMPLES).max() <= off


async def test_a_rate_that_is_none() -> None:
    with pytest.raises(SourceError, match="expected 4000 to 384000 Hz, got 0"):
        await read(SAMPLES.tobytes(), rate=0)


async def test_other_rates_are_resampled() -> None:
    assert abs(len(await read(SAMPLES.tobytes(), rate=8_000)) - 7200) <= 2
    assert abs(len(await read(wav(SAMPLES, 48_000))) - 1200) <= 2


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"OggS" + bytes(50), "got audio/ogg"),
        (b"ID3" + bytes(50), "got audio/mpeg"),
        (wav(SAMPLES)[:20], "cut off"),
        (wav(SAMPLES, subtype="ALAW"), "format 6 with 8 bits"),
        (wav(SAMPLES / 32768, subtype="DOUBLE"), "format 3 with 64 bits"),
        (b"RIFF\0\0\0\0WAVEdata\0\0\0\0", "no format"),
        (b"RIFF\0\0\0\0WAVEjunk\xff\xff\xff\xff", "chunk of 4294967295 bytes"),
    ],
)
async def test_what_cannot_be_read_says_so(data: bytes, words: str) -> None:
    with pytest.raises(SourceError, match=words):
        await read(data)
    assert not len(await read(b""))
