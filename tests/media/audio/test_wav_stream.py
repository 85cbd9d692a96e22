"""WAVs of plain samples, as they come."""

from __future__ import annotations

import io
import struct

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st

from lookhear.media.audio.decode import decode_audio
from lookhear.media.audio.live_container import LiveContainer
from lookhear.media.audio.wav_stream import PlainSamples, wav_head
from lookhear.media.base import MediaError
from tests.media.audio.recordings import RATE

TITLE = b"LIST" + struct.pack("<I", 5) + b"title" + b"\0"  # an odd size is filled up
NOISE = np.random.default_rng(0).uniform(-0.5, 0.5, (RATE, 2)).astype(np.float32)


def wav(
    data: bytes, bits: int = 16, channels: int = 1, *, tag: int = 1, size: int | None = None
) -> bytes:
    frame = channels * bits // 8
    fmt = struct.pack("<HHIIHH", tag, channels, RATE, RATE * frame, frame, bits)
    head = b"RIFF" + struct.pack("<I", 0) + b"WAVE" + TITLE + b"fmt " + struct.pack("<I", len(fmt))
    return head + fmt + b"data" + struct.pack("<I", len(data) if size is None else size) + data


def heard(data: bytes) -> np.ndarray:
    stream = LiveContainer()
    stream.feed(data)
    stream.end()
    return stream.take()[0]


@pytest.mark.parametrize("container", ["WAV", "WAVEX"])
@pytest.mark.parametrize("codec", ["PCM_U8", "PCM_16", "PCM_24", "PCM_32", "FLOAT", "ULAW"])
@pytest.mark.parametrize("channels", [1, 2])
def test_what_is_heard_is_what_was_written(container: str, codec: str, channels: int) -> None:
    file = io.BytesIO()
    soundfile.write(file, NOISE[:, :channels], RATE, format=container, subtype=codec)
    file.seek(0)
    written = soundfile.read(file, dtype="float32", always_2d=True)[0].mean(axis=1)
    assert np.allclose(heard(file.getvalue()), written, atol=1e-6)


def test_the_first_samples_are_heard_at_once() -> None:
    stream = LiveContainer()
    stream.feed(wav(bytes(RATE), size=0)[: RATE // 4])  # an eighth of a second
    assert len(stream.take()[0]) > 0
    stream.end()
    stream.take()


@pytest.mark.parametrize("size", [0, 0xFFFFFFFF, 0x7FFFFFFF])
def test_who_writes_to_a_pipe_knows_no_size(size: int) -> None:
    assert len(heard(wav(bytes(2 * RATE), size=size))) == RATE


@pytest.mark.parametrize(
    ("size", "bits", "channels"),
    [
        (0, 16, 1),
        (0x7FFF0000, 16, 1),  # GStreamer
        (0x7FFFF000, 16, 1),  # SoX, and the same in whole frames
        (0x7FFFF000 // 3 * 3, 24, 1),
        (0x7FFFF000 // 24 * 24, 32, 6),
        (0xFFFFFFFF, 16, 1),
    ],
)
def test_nothing_is_missed_of_what_was_written_to_a_pipe(
    size: int, bits: int, channels: int
) -> None:
    file = wav(bytes(RATE * channels * bits // 8), bits, channels, size=size)
    assert decode_audio(file).duration_s == 1
    assert len(heard(file)) == RATE


def test_what_stands_behind_the_samples_is_not_heard() -> None:
    loud = b"LIST" + struct.pack("<I", 4000) + b"\x7f" * 4000
    assert not heard(wav(bytes(2 * RATE)) + loud).any()


@pytest.mark.parametrize("damage", [b"RIFX", b"RIFF\0\0\0\0AVI "])
def test_others_are_left_to_ffmpeg_from_their_first_byte(damage: bytes) -> None:
    data = damage + wav(bytes(100))[len(damage) :]
    file = io.BytesIO(data)
    plain, head = wav_head(file)
    assert plain is None and head + file.read() == data


@pytest.mark.parametrize(
    ("bits", "channels", "tag"), [(12, 1, 1), (16, 0, 1), (16, 65, 1), (4, 1, 2), (16, 1, 0xFFFE)]
)
def test_what_is_not_plain_is_left_to_ffmpeg(bits: int, channels: int, tag: int) -> None:
    assert wav_head(io.BytesIO(wav(b"", bits, channels, tag=tag)))[0] is None


@given(st.integers(0, 60), st.integers(1, 7))
def test_a_head_is_read_in_any_pieces_and_may_be_cut(end: int, most: int) -> None:
    data = wav(b"samples!")
    whole = len(data) - 8

    class Slow(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            return super().read(min(size or 0, most))

    plain, head = wav_head(Slow(data[:end] if end < whole else data))
    assert head == data[: min(end, whole)]
    assert plain == (None if end < whole else PlainSamples("s16le", RATE, 1, 8))


def test_numbers_of_64_bits_are_refused_by_name() -> None:
    data = wav(bytes(8000), 64)
    with pytest.raises(MediaError, match="expected samples of at most 32 bits.*; got s64"):
        heard(data)
    with pytest.raises(MediaError, match="got s64"):
        decode_audio(data)
