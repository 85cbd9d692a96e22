"""MP4 headers that declare far more than the file holds."""

from __future__ import annotations

import io
import struct
from functools import cache
from typing import Any

import av
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lookhear.media.audio.decode import decode_audio
from lookhear.media.base import MediaError
from lookhear.media.mp4_limits import check_mp4, is_mp4
from lookhear.media.pictures.video import VideoMediaIO


@cache
def film(frames: int = 20, fragmented: bool = False) -> bytes:
    buffer = io.BytesIO()
    flags = {"movflags": "frag_keyframe+empty_moov+default_base_moof"} if fragmented else {}
    with av.open(buffer, "w", format="mp4", options=flags) as output:
        stream: Any = output.add_stream("mpeg4", rate=10)
        stream.width, stream.height, stream.pix_fmt = 32, 32, "yuv420p"
        for number in range(frames):
            frame = av.VideoFrame.from_ndarray(np.full((32, 32, 3), number % 200, np.uint8))
            frame.pts = number
            output.mux(stream.encode(frame))
        output.mux(stream.encode(None))
    return buffer.getvalue()


@cache
def sound(codec: str, samples: int) -> bytes:
    buffer = io.BytesIO()
    with av.open(buffer, "w", format="mov") as output:
        stream: Any = output.add_stream(codec, rate=48000)
        stream.layout = "mono"
        pcm = np.zeros((1, samples), np.int16)
        frame = av.AudioFrame.from_ndarray(pcm, "s16", "mono")
        frame.sample_rate, frame.pts = 48000, 0
        output.mux(stream.encode(frame))
        output.mux(stream.encode(None))
    return buffer.getvalue()


def with_numbers(data: bytes, name: bytes, offset: int, *numbers: int) -> bytes:
    """The 32-bit numbers that begin `offset` bytes after the box's name replaced."""
    at = data.index(name) + offset
    return data[:at] + struct.pack(f">{len(numbers)}I", *numbers) + data[at + 4 * len(numbers) :]


def with_edits(data: bytes, entries: list[tuple[int, int]]) -> bytes:
    """The track's edit list replaced by (duration, media time) entries."""
    at = data.index(b"elst")
    (count,) = struct.unpack(">I", data[at + 8 : at + 12])
    body = b"".join(struct.pack(">IiI", *entry, 1 << 16) for entry in entries)
    grown = len(body) - 12 * count
    data = data[: at + 12] + body + data[at + 12 + 12 * count :]
    data = with_numbers(data, b"elst", 8, len(entries))
    for name in (b"elst", b"edts", b"trak", b"moov"):
        (size,) = struct.unpack(">I", data[data.index(name) - 4 : data.index(name)])
        data = with_numbers(data, name, -4, size + grown)
    return data


def reason(data: bytes) -> str:
    """Of the refusal by every way in; they agree."""
    found = []
    for load in (
        lambda: check_mp4(io.BytesIO(data)),
        lambda: VideoMediaIO().load_bytes(data),
        lambda: decode_audio(data),
    ):
        with pytest.raises(MediaError) as caught:
            load()
        found.append(caught.value)
    assert len({str(error) for error in found}) == 1
    return f"{found[0].reason}: {found[0]}"


def test_honest_files_pass() -> None:
    for data in (film(), film(fragmented=True), sound("pcm_s16le", 4800)):
        assert is_mp4(data)
        file = io.BytesIO(data)
        check_mp4(file)
        assert file.tell() == 0


def test_samples_that_are_declared_only() -> None:
    bomb = with_numbers(film(), b"stsz", 8, 1, 100_000_000)
    assert "too_large: expected an MP4 file of at most 2097152 samples; got 100000000" in reason(
        bomb
    )
    bomb = with_numbers(film(fragmented=True), b"trun", 4, 1, 1 << 31)
    assert "samples; got 21474836" in reason(bomb)


def test_a_table_in_the_wrong_place_counts_too() -> None:
    table = struct.pack(">I4sIII", 20, b"stsz", 0, 1, 100_000_000)
    hidden = film() + struct.pack(">I4s", 8 + len(table), b"free") + table
    assert "too_large" in reason(hidden)


def test_uncompressed_sound_may_have_any_number_of_samples() -> None:
    long = sound("pcm_s16le", 2_200_000)
    check_mp4(io.BytesIO(long))
    assert decode_audio(long).duration_s == pytest.approx(2_200_000 / 48000, abs=0.01)
    # But not by its word alone.
    for changed in (
        long.replace(b"sowt", b"mp4a"),
        long.replace(b"mhlrsoun", b"mhlrvide"),
        with_numbers(long, b"stts", 16, 2),
        long + struct.pack(">I4sIIII", 24, b"stts", 0, 1, 9, 2),
        long + struct.pack(">I4sII4s", 20, b"hdlr", 0, 0, b"vide"),
    ):
        assert changed != long
        with pytest.raises(MediaError, match="expected an MP4 file of at most 2097152 samples"):
            check_mp4(io.BytesIO(changed))


def test_edit_lists() -> None:
    pause_and_clip = with_edits(film(), [(500, -1), (2000, 0)])
    assert len(VideoMediaIO().load_bytes(pause_and_clip).media.frames) == 4
    two_parts = with_edits(film(), [(500, 0), (500, 10240)])
    assert VideoMediaIO().load_bytes(two_parts).media.total_frames >= 10
    assert "unsupported: expected an MP4 file without cuts" in reason(
        with_edits(film(), [(2000, 0)] * 2000)
    )
    many_pauses = with_edits(film(), [(1, -1)] * 50 + [(2000, 0)])
    check_mp4(io.BytesIO(many_pauses))


def test_a_compressed_header_is_refused() -> None:
    assert "unsupported" in reason(film() + struct.pack(">I4s4s", 12, b"cmov", b"zlib"))


@pytest.mark.parametrize("size", [1 << 62, (1 << 63) - 1, 1 << 63, (1 << 64) - 1])
def test_media_data_may_be_said_to_be_longer_than_any_file(size: int) -> None:
    data = film()[: film().index(b"mdat") - 4] + struct.pack(">I4sQ", 1, b"mdat", size)
    check_mp4(io.BytesIO(data + bytes(1000)))
    for load in (VideoMediaIO().load_bytes, decode_audio):
        with pytest.raises(MediaError):
            load(data + bytes(1000))


def test_headers_have_a_limit() -> None:
    class Large(io.BytesIO):
        """A box of 100 MB that nobody needs to write down."""

        def read(self, size: int | None = -1) -> bytes:
            data = super().read(size)
            wanted = len(data) if size is None or size < 0 else size
            return data if len(data) >= 8 or self.tell() < 8 else bytes(wanted)

    with pytest.raises(MediaError, match="at most 67108864 bytes of headers"):
        check_mp4(Large(struct.pack(">I4s", 100_000_000, b"free")))


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=300), st.data())
def test_any_bytes_pass_or_are_refused(data: bytes, draws: st.DataObject) -> None:
    damaged = bytearray(film())
    for _ in range(draws.draw(st.integers(0, 6))):
        at = draws.draw(st.integers(0, len(damaged) - 1))
        damaged[at] = draws.draw(st.integers(0, 255))
    for content in (data, b"\0\0\0\x10ftyp" + data, bytes(damaged)):
        try:
            check_mp4(io.BytesIO(content))
        except MediaError as error:
            assert error.reason in ("too_large", "unsupported")


@pytest.mark.parametrize("wide", [False, True])
def test_a_track_whose_fragments_ffmpeg_would_look_for_without_end(wide: bool) -> None:
    data = film(fragmented=True)
    at = data.index(b"tkhd")
    head = b"tkhd" + (b"\1" + bytes(19) if wide else bytes(12))
    check_mp4(io.BytesIO(data[:at] + head + struct.pack(">I", 0x7FFFFFFF) + data[at + 20 :]))
    damaged = data[:at] + head + struct.pack(">I", 0x80000000) + data[at + 20 :]
    with pytest.raises(MediaError, match="numbers up to 2147483647; got 2147483648") as raised:
        VideoMediaIO().load_bytes(damaged)
    assert raised.value.reason == "unsupported"


def test_an_edit_list_that_is_cut_off() -> None:
    data = film()
    at = data.index(b"elst")
    for end in range(at, at + 40):
        check_mp4(io.BytesIO(data[:end]))
