"""Files that say how long they are, and those that cannot know it."""

from __future__ import annotations

import io
import struct
from functools import cache

import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st

from lookhear.media.audio.declared import missing
from lookhear.media.audio.decode import decode_audio
from lookhear.media.base import MediaError
from tests.media.audio.recordings import RATE, SECONDS, voice

KINDS = [
    *(("AIFF", codec) for codec in ("PCM_16", "PCM_24", "ULAW", "FLOAT", "IMA_ADPCM")),
    *(("AU", codec) for codec in ("PCM_16", "ULAW")),
    *(("CAF", codec) for codec in ("PCM_16", "ULAW", "ALAC_16")),
    ("RF64", "PCM_16"),
    ("W64", "PCM_16"),
]
# Where the size of the samples stands behind their chunk's name, and how it is written.
SIZES = {"AIFF": (b"SSND", 4, ">I"), "CAF": (b"data", 4, ">Q"), "W64": (b"data", 16, "<Q")}
SIZES |= {"AU": (b".snd", 8, ">I")}


@cache
def file(container: str, codec: str = "PCM_16") -> bytes:
    buffer = io.BytesIO()
    soundfile.write(buffer, voice(), RATE, format=container, subtype=codec)
    return buffer.getvalue()


def with_size(container: str, size: int) -> bytes:
    """The bytes of samples that the header declares replaced."""
    name, behind, form = SIZES[container]
    data = bytearray(file(container))
    struct.pack_into(form, data, data.index(name) + behind, size)
    return bytes(data)


@pytest.mark.parametrize(("container", "codec"), KINDS)
def test_what_is_whole_is_heard_and_what_is_cut_is_refused(container: str, codec: str) -> None:
    data = file(container, codec)
    assert missing(io.BytesIO(data)) == 1.0
    assert decode_audio(data).duration_s == pytest.approx(SECONDS, abs=0.1)
    for kept in (0.5, 0.9):
        with pytest.raises(MediaError, match="header declares .* truncated or damaged") as raised:
            decode_audio(data[: int(len(data) * kept)])
        assert raised.value.reason == "truncated"


@pytest.mark.parametrize("container", ["AIFF", "AU", "CAF", "RF64", "W64"])
def test_a_little_less_is_no_damage(container: str) -> None:
    lost = round(0.12 * RATE) * 2
    assert decode_audio(file(container)[:-lost]).duration_s == pytest.approx(
        SECONDS - 0.12, abs=0.1
    )


@pytest.mark.parametrize(
    ("container", "size"),
    [
        *(("AIFF", size) for size in (0, 0x7F000008, 0x7FFF0000, 0xFFFFFFFF)),
        *(("AU", size) for size in (0, 0xFFFFFFFF)),
        ("CAF", (1 << 64) - 1),
        *(("W64", size) for size in (0, (1 << 63) - 1, (1 << 64) - 1)),
    ],
)
def test_who_writes_to_a_pipe_declares_nothing(container: str, size: int) -> None:
    with io.BytesIO(with_size(container, size)) as data:
        assert missing(data) == 1.0 and data.tell() == 0


def test_an_rf64_declares_it_in_front() -> None:
    data = bytearray(file("RF64"))
    struct.pack_into("<I", data, data.index(b"data") + 4, 0xFFFFFFFF)
    there = len(data) - data.index(b"data") - 8
    struct.pack_into("<Q", data, data.index(b"ds64") + 16, 10 * there)
    assert missing(io.BytesIO(bytes(data))) == 10
    struct.pack_into("<Q", data, data.index(b"ds64") + 16, 0)
    assert missing(io.BytesIO(bytes(data))) == 1.0


def test_chunks_before_the_samples_are_passed() -> None:
    """One of odd length is filled up."""
    samples = b"SSND" + struct.pack(">I", 400) + bytes(100)
    for size in (0, 1, 2, 999):
        title = b"NAME" + struct.pack(">I", size) + b"n" * (size + size % 2)
        assert missing(io.BytesIO(b"FORM\0\0\0\0AIFF" + title + samples)) == 4


@given(
    st.sampled_from(["AIFF", "AU", "CAF", "RF64", "W64"]),
    st.integers(0, 5000),
    st.lists(st.tuples(st.integers(0, 120), st.integers(0, 255)), max_size=8),
)
def test_any_head_is_read(container: str, end: int, damage: list[tuple[int, int]]) -> None:
    data = bytearray(file(container))
    for at, value in damage:
        data[at] = value
    with io.BytesIO(bytes(data[:end])) as cut:
        assert missing(cut) >= 1 and cut.tell() == 0
