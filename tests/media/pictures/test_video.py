"""Videos of every container we promise, whole and broken; and how little of them is decoded."""

from __future__ import annotations

import base64
import gc
import io
import os
import struct
import zlib
from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from av.stream import Disposition
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image as pillow
from PIL.ExifTags import Base as ExifTag

from lookhear.media.base import MediaError
from lookhear.media.pictures import video_frames
from lookhear.media.pictures.sampling import FrameSampling
from lookhear.media.pictures.video import Video, VideoMediaIO
from lookhear.media.pictures.video_frames import (
    PacketIndex,
    decoding_plan,
    index_packets,
    open_video,
)

FRAMES, RATE, GOP = 40, 10, 10
WIDTH, HEIGHT = 64, 48
KINDS = [
    ("mp4", "libx264"),
    ("mp4", "mpeg4"),
    ("mov", "libx264"),
    ("webm", "libvpx"),
    ("webm", "libvpx-vp9"),
    ("matroska", "libx264"),
    ("matroska", "mjpeg"),
]


def grey(number: int) -> int:
    """Every frame has a level of its own, 5 apart."""
    return 20 + 5 * number


@cache
def made(
    container: str = "mp4", codec: str = "libx264", frames: int = FRAMES, audio: bool = False
) -> bytes:
    buffer = io.BytesIO()
    with av.open(buffer, "w", format=container) as output:
        stream: Any = output.add_stream(codec, rate=RATE)
        stream.width, stream.height = WIDTH, HEIGHT
        stream.pix_fmt = "yuvj420p" if codec == "mjpeg" else "yuv420p"
        stream.codec_context.gop_size = GOP
        if codec == "libx264":
            stream.options = {"x264-params": f"keyint={GOP}:scenecut=0:bframes=2"}
        elif codec == "mpeg4":
            stream.options = {"qmin": "1", "qmax": "1"}
        elif codec.startswith("libvpx"):
            stream.options = {"deadline": "realtime", "cpu-used": "8"}
        sound: Any = output.add_stream("aac", rate=16000) if audio else None
        for number in range(frames):
            pixels = np.full((HEIGHT, WIDTH, 3), grey(number), np.uint8)
            frame = av.VideoFrame.from_ndarray(pixels)
            frame.pts = number
            output.mux(stream.encode(frame))
        if frames:
            output.mux(stream.encode(None))
        if sound is not None:
            silence = av.AudioFrame.from_ndarray(np.zeros((1, 32000), np.float32), "fltp", "mono")
            silence.sample_rate, silence.pts = 16000, 0
            output.mux(sound.encode(silence))
            output.mux(sound.encode(None))
    return buffer.getvalue()


def only_sound() -> bytes:
    buffer = io.BytesIO()
    with av.open(buffer, "w", format="mp4") as output:
        sound: Any = output.add_stream("aac", rate=16000)
        silence = av.AudioFrame.from_ndarray(np.zeros((1, 32000), np.float32), "fltp", "mono")
        silence.sample_rate, silence.pts = 16000, 0
        output.mux(sound.encode(silence))
        output.mux(sound.encode(None))
    return buffer.getvalue()


def with_cover(container: str, *, film: bool) -> bytes:
    """A picture, then a film or a song that it belongs to."""
    buffer = io.BytesIO()
    with av.open(buffer, "w", format=container) as output:
        cover: Any = output.add_stream("mjpeg", rate=1)
        cover.width, cover.height, cover.pix_fmt = 32, 32, "yuvj420p"
        cover.disposition = Disposition(0) if film else Disposition.attached_pic
        other: Any = output.add_stream(*(("mpeg4", RATE) if film else ("aac", 16000)))
        if film:
            other.width, other.height, other.pix_fmt = WIDTH, HEIGHT, "yuv420p"
            other.disposition = Disposition.default
        output.mux(cover.encode(av.VideoFrame.from_ndarray(np.zeros((32, 32, 3), np.uint8))))
        output.mux(cover.encode(None))
        for number in range(10):
            if film:
                frame: Any = av.VideoFrame.from_ndarray(np.zeros((HEIGHT, WIDTH, 3), np.uint8))
                frame.pts = number
            else:
                silence = np.zeros((1, 1024), np.float32)
                frame = av.AudioFrame.from_ndarray(silence, "fltp", "mono")
                frame.sample_rate, frame.pts = 16000, 1024 * number
            output.mux(other.encode(frame))
        output.mux(other.encode(None))
    return buffer.getvalue()


def load(data: bytes, **sampling: Any) -> Video:
    return VideoMediaIO(sampling=FrameSampling(**sampling)).load_bytes(data).media


def levels(video: Video) -> list[int]:
    return [round(float(frame.mean())) for frame in video.frames]


def error_of(data: bytes, **options: Any) -> MediaError:
    with pytest.raises(MediaError) as caught:
        VideoMediaIO(**options).load_bytes(data)
    return caught.value


def shows(video: Video, numbers: list[int]) -> bool:
    return len(video.frames) == len(numbers) and all(
        abs(level - grey(number)) <= 2 for level, number in zip(levels(video), numbers, strict=True)
    )


@pytest.mark.parametrize("container, codec", KINDS)
def test_every_container_gives_the_right_frames(container: str, codec: str) -> None:
    data = made(container, codec)
    video = load(data, fps=2)
    assert shows(video, [0, 5, 10, 15, 20, 25, 30, 35])
    assert video.times_s == pytest.approx([0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5], abs=2e-3)
    assert video.total_frames == FRAMES and video.duration_s == pytest.approx(4.0, abs=2e-3)
    assert video.container == (
        "mov" if container == "mp4" else container.replace("webm", "matroska")
    )
    assert all(f.shape == (HEIGHT, WIDTH, 3) and f.dtype == np.uint8 for f in video.frames)
    assert shows(load(data, count=3), [0, 20, 39])
    assert shows(load(data, indices=(1, 9, 10, 11, 38)), [1, 9, 10, 11, 38])
    assert shows(load(data), list(range(FRAMES)))


@settings(max_examples=20, deadline=None)
@given(st.sampled_from(KINDS), st.sets(st.integers(0, FRAMES - 1), min_size=1))
def test_any_choice_gives_exactly_these_frames(kind: tuple[str, str], chosen: set[int]) -> None:
    numbers = sorted(chosen)
    video = load(made(*kind), indices=tuple(numbers))
    assert shows(video, numbers)
    assert video.times_s == pytest.approx([number / RATE for number in numbers], abs=2e-3)


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Sizes of the packets that went into a decoder."""
    sizes: list[int] = []
    real = video_frames.attempt

    def counted(codec: Any, packet: Any | None) -> list[Any]:
        if packet is not None:
            sizes.append(packet.size)
        return real(codec, packet)

    monkeypatch.setattr(video_frames, "attempt", counted)
    yield sizes


@pytest.mark.parametrize("container, codec", [("webm", "libvpx-vp9"), ("matroska", "libx264")])
def test_only_what_is_needed_is_decoded(container: str, codec: str, decoded: list[int]) -> None:
    data = made(container, codec)
    load(data, indices=(10,))
    assert len(decoded) == 1  # a keyframe in the middle of the file
    decoded.clear()
    load(data, indices=(0, 30))
    assert len(decoded) == 2
    decoded.clear()
    load(data, indices=(2, 31))
    assert len(decoded) <= 8  # with bidirectional frames the next reference too
    decoded.clear()
    load(data)
    assert len(decoded) == FRAMES


def test_every_frame_a_keyframe_decodes_only_the_chosen(decoded: list[int]) -> None:
    load(made("matroska", "mjpeg"), count=7)
    assert len(decoded) == 7


def test_plan_of_leading_frames() -> None:
    """Frames that follow a keyframe in the file and come before it on the screen."""
    # packets in decoding order:  0:I@0  1:P@3  2:B@1  3:I@6  4:B@5  5:P@8
    index = PacketIndex(
        pts=[0, 1, 3, 5, 6, 8],
        numbers=[0, 2, 1, 4, 3, 5],
        keys=[(0, 0), (3, 6)],
        time_base=Fraction(1, 10),
        end_s=0.9,
    )
    assert decoding_plan(index, [4]) == [range(3, 4)]
    assert decoding_plan(index, [5]) == [range(3, 6)]
    assert decoding_plan(index, [3]) == [range(0, 5)]  # refers to the frames before packet 3
    assert decoding_plan(index, [1, 4]) == [range(0, 4)]
    assert decoding_plan(index, [0, 4]) == [range(0, 1), range(3, 4)]
    assert decoding_plan(index, [3, 5]) == [range(0, 6)]


@pytest.mark.parametrize("most, shape", [(1, (48, 64, 3)), (2, (33, 45, 3)), (10**9, (1, 1, 3))])
def test_frames_too_large_together_are_scaled_down(most: int, shape: tuple[int, ...]) -> None:
    loader = VideoMediaIO(
        sampling=FrameSampling(), max_total_pixels=FRAMES * WIDTH * HEIGHT // most
    )
    video = loader.load_bytes(made()).media
    assert {frame.shape for frame in video.frames} == {shape}
    assert shows(video, list(range(FRAMES)))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_plan_covers_every_choice_without_overlap(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 30))
    pts = sorted(data.draw(st.sets(st.integers(0, 200), min_size=count, max_size=count)))
    numbers = data.draw(st.permutations(range(count)))
    by_packet = {number: pts[frame] for frame, number in enumerate(numbers)}
    keyed = sorted({0, *data.draw(st.sets(st.integers(0, count - 1)))})
    keys = [(number, by_packet[number]) for number in keyed]
    index = PacketIndex(pts, list(numbers), keys, Fraction(1, 10), 20.0)
    chosen = sorted(data.draw(st.sets(st.integers(0, count - 1), min_size=1)))
    plan = decoding_plan(index, chosen)
    for one, two in zip(plan, plan[1:], strict=False):
        assert one.stop < two.start
    for frame in chosen:
        part = next(part for part in plan if numbers[frame] in part)
        starts_at_key = any(
            part.start <= number <= numbers[frame] and at <= pts[frame] for number, at in keys
        )
        assert starts_at_key or part.start == 0


def without_packet(data: bytes, number: int) -> bytes:
    """The packet, counted in the order of decoding, overwritten with zeros."""
    with av.open(io.BytesIO(data), mode="r") as container:
        packet = bytes(list(container.demux(video=0))[number])
    assert data.count(packet) == 1
    return data.replace(packet, bytes(len(packet)))


def test_a_damaged_frame_is_replaced_by_the_one_on_display() -> None:
    data = without_packet(made("matroska", "mjpeg"), 20)
    assert shows(load(data, indices=(18, 19, 20, 21)), [18, 19, 21])  # 19 was given already
    video = load(data, indices=(15, 20, 21))
    assert shows(video, [15, 21])  # nothing of the time before 20 was decoded
    # A keyframe, after a choice for which a later reference had to be decoded too.
    lost = without_packet(made("matroska", "libx264"), 30)
    assert shows(load(lost, indices=(1, 30)), [1])


def test_frames_that_are_kept_keep_no_threads() -> None:
    """Whose stacks count against what a decoder may take, until there is a collection."""
    gc.collect()
    gc.disable()
    try:
        before = len(os.listdir("/proc/self/task"))
        load(made())
        assert len(os.listdir("/proc/self/task")) == before
    finally:
        gc.enable()


def test_audio_beside_the_video_does_not_matter() -> None:
    for container in ("mp4", "matroska"):
        assert shows(load(made(container, audio=True), count=2), [0, 39])


def with_matrix(a: int, b: int, c: int, d: int) -> tuple[np.ndarray, bytes]:
    """A picture whose upper left quarter is white, and a film of it with this matrix in the header
    of its track: (x, y) is shown at (a x + c y, b x + d y). ISO 14496-12, 8.3.2."""
    buffer = io.BytesIO()
    with av.open(buffer, "w", format="mp4") as output:
        stream: Any = output.add_stream("mpeg4", rate=RATE)
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        pixels = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
        pixels[: HEIGHT // 2, : WIDTH // 2] = 255
        output.mux(stream.encode(av.VideoFrame.from_ndarray(pixels)))
        output.mux(stream.encode(None))
    data = bytearray(buffer.getvalue())
    at = data.index(b"tkhd") + 44
    one = 1 << 16
    data[at : at + 36] = struct.pack(">9i", a * one, b * one, 0, c * one, d * one, 0, 0, 0, 1 << 30)
    return pixels, bytes(data)


def looks_like(frame: np.ndarray, expected: np.ndarray) -> bool:
    return frame.shape == expected.shape and np.abs(frame.astype(int) - expected).mean() < 10


@pytest.mark.parametrize("turn", [0, 90, 180, 270])
def test_a_phones_rotation_is_applied(turn: int) -> None:
    """As phones write it, the matrix turns clockwise."""
    quarters = {0: (1, 0, 0, 1), 90: (0, 1, -1, 0), 180: (-1, 0, 0, -1), 270: (0, -1, 1, 0)}
    pixels, data = with_matrix(*quarters[turn])
    assert looks_like(load(data).frames[0], np.rot90(pixels, -turn // 90))


@pytest.mark.parametrize(
    ("matrix", "turn"),
    [((-1, 0, 0, 1), 0), ((1, 0, 0, -1), 180), ((0, 1, 1, 0), 90), ((0, -1, -1, 0), 270)],
    ids=["left and right", "top and bottom", "one diagonal", "the other"],
)
def test_a_mirrored_film_is_shown_mirrored(matrix: tuple[int, int, int, int], turn: int) -> None:
    """As front cameras write it: left and right are swapped, then it is turned."""
    pixels, data = with_matrix(*matrix)
    assert looks_like(load(data).frames[0], np.rot90(pixels[:, ::-1], turn // 90))


def test_a_matrix_of_zeros_says_nothing() -> None:
    pixels, data = with_matrix(0, 0, 0, 0)
    assert looks_like(load(data).frames[0], pixels)


@pytest.mark.parametrize(("orientation", "turn"), [(1, 0), (3, 180), (6, 270), (8, 90)])
def test_a_film_of_jpegs_is_turned_as_their_exif_says(orientation: int, turn: int) -> None:
    pixels = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    pixels[: HEIGHT // 2, : WIDTH // 2] = 255
    exif = pillow.Exif()
    exif[ExifTag.Orientation], exif[ExifTag.ImageDescription] = orientation, "a cat"
    jpeg, buffer = io.BytesIO(), io.BytesIO()
    pillow.fromarray(pixels).save(jpeg, "JPEG", exif=exif)
    with av.open(buffer, "w", format="matroska") as output:
        stream: Any = output.add_stream("mjpeg", rate=RATE)
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuvj420p"
        packet: Any = av.Packet(jpeg.getvalue())
        packet.stream, packet.time_base, packet.pts, packet.dts = stream, Fraction(1, RATE), 0, 0
        output.mux(packet)
    assert looks_like(load(buffer.getvalue()).frames[0], np.rot90(pixels, turn // 90))


@pytest.mark.parametrize("aspect, shape", [("2", (34, 91)), ("1/2", (68, 45)), ("9", (48, 64))])
def test_pixels_that_are_not_square(aspect: str, shape: tuple[int, int]) -> None:
    """A frame is as wide as on a screen, of as many pixels; what cannot be is not believed."""
    buffer = io.BytesIO()
    with av.open(buffer, "w", format="matroska") as output:
        stream: Any = output.add_stream("mpeg4", rate=RATE)
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        stream.sample_aspect_ratio = Fraction(aspect)
        pixels = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
        pixels[:, : WIDTH // 2] = 255
        output.mux(stream.encode(av.VideoFrame.from_ndarray(pixels)))
        output.mux(stream.encode(None))
    frame = load(buffer.getvalue()).frames[0]
    assert frame.shape == (*shape, 3)
    assert frame[:, : shape[1] // 2 - 2].min() > 200 and frame[:, shape[1] // 2 + 3 :].max() < 50


def test_times_start_at_the_first_frame() -> None:
    buffer = io.BytesIO()
    with av.open(buffer, "w", format="matroska") as output:
        stream: Any = output.add_stream("mjpeg", rate=RATE)
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuvj420p"
        for number in (70, 71, 90):  # starts late, then a gap
            frame = av.VideoFrame.from_ndarray(np.full((HEIGHT, WIDTH, 3), 99, np.uint8))
            frame.pts = number
            output.mux(stream.encode(frame))
        output.mux(stream.encode(None))
    assert load(buffer.getvalue()).times_s == pytest.approx([0, 0.1, 2.0])


# What is wrong with the input.


def test_a_cover_is_not_the_film() -> None:
    video = load(with_cover("matroska", film=True))
    assert video.frames[0].shape == (HEIGHT, WIDTH, 3)
    assert error_of(with_cover("mp4", film=False)).reason == "no_video_track"


@pytest.mark.parametrize("container", ["mp4", "matroska"])
def test_a_video_without_frames(container: str) -> None:
    """A header and a track, as a recorder leaves them that was stopped at once."""
    buffer = io.BytesIO()
    fragmented = {"movflags": "frag_keyframe+empty_moov"} if container == "mp4" else {}
    with av.open(buffer, "w", format=container, options=fragmented) as output:
        stream: Any = output.add_stream("mpeg4", rate=RATE)
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        output.start_encoding()
    error = error_of(buffer.getvalue())
    assert error.reason in ("empty", "truncated")
    assert "got one without a single frame" in str(error) or "without a frame" in str(error)


@pytest.mark.parametrize("container, codec", KINDS)
def test_truncated(container: str, codec: str) -> None:
    data = made(container, codec)
    for part in (0.1, 0.3, 0.7):
        error = error_of(data[: int(len(data) * part)])
        if container == "mov" and part == 0.7:  # inside the description of its codec
            assert error.reason == "unsupported" and "unknown or damaged one" in str(error)
        else:
            assert error.reason == "truncated" and "expected a complete video" in str(error)


@pytest.mark.parametrize(
    "data, reason, message",
    [
        (b"", "empty", "expected an MP4, WebM or Matroska video; got 0 bytes"),
        (b"not a film", "not_video", "got text/plain"),
        (b"<html>", "not_video", "got text/html"),
        (b"\x89PNG\r\n\x1a\n", "not_video", "got a PNG image"),
        (b"#EXTM3U\nhttp://127.0.0.1/a.ts", "not_video", "got text/plain"),
        (b"\x1a\x45\xdf\xa3\0\0\0\0", "truncated", "got a WebM or Matroska file without a frame"),
        (b"RIFF\0\0\0\0AVI LIST", "not_video", "got a WAV or AVI file"),
        (only_sound(), "no_video_track", "got an MP4 file without a video track"),
    ],
)
def test_what_is_no_video(data: bytes, reason: str, message: str) -> None:
    error = error_of(data)
    assert error.reason == reason and message in str(error)


def test_an_old_codec_is_refused() -> None:
    error = error_of(made("matroska", "ffv1"))
    assert error.reason == "unsupported" and "got ffv1" in str(error)


def test_limits(tmp_path: Path) -> None:
    data = made()
    area = WIDTH * HEIGHT
    all_frames = FrameSampling()
    assert error_of(data, max_frame_pixels=area - 1).reason == "too_large"
    assert "at most 3071 pixels; got 64 x 48" in str(error_of(data, max_frame_pixels=area - 1))
    error = error_of(data, sampling=FrameSampling(indices=(39,)), max_decoded_pixels=area)
    assert error.reason == "too_long" and "of 64 x 48 must be decoded" in str(error)
    error = error_of(data, max_seconds=3.5)
    assert error.reason == "too_long"
    assert str(error) == "expected a video of at most 3.5 s; got 4.00 s"
    path = tmp_path / "a.mp4"
    path.write_bytes(data)
    with pytest.raises(MediaError, match=f"expected at most 99 bytes; got {len(data)}"):
        VideoMediaIO(max_bytes=99).load_file(path)
    exact = VideoMediaIO(
        sampling=all_frames,
        max_frame_pixels=area,
        max_total_pixels=FRAMES * area,
        max_decoded_pixels=FRAMES * area,
        max_seconds=4,
        max_bytes=len(data),
    )
    assert len(exact.load_file(path).media.frames) == FRAMES


def element(name: str, body: bytes | int) -> bytes:
    """One of EBML (RFC 8794): its name in hexadecimal, its length in eight bytes."""
    if isinstance(body, int):
        body = body.to_bytes(4, "big")
    return bytes.fromhex(name) + (1 << 56 | len(body)).to_bytes(8, "big") + body


def test_a_track_that_unpacks_to_gigabytes_is_refused() -> None:
    """Matroska may compress a track's blocks with zlib: 9 kB here hold 9 MB each."""
    packing = element("6d80", element("6240", element("5034", element("4254", 0))))
    size = element("e0", element("b0", WIDTH) + element("ba", HEIGHT))
    track = element("d7", 1) + element("83", 1) + element("86", b"V_VP8") + size + packing
    packed = zlib.compress(bytes(9_000_000), 9)
    blocks = b"".join(
        element("a3", b"\x81" + struct.pack(">h", number) + b"\x80" + packed)
        for number in range(12)
    )
    cluster = element("1f43b675", element("e7", 0) + blocks)
    data = element("1a45dfa3", element("4282", b"matroska"))
    data += element("18538067", element("1654ae6b", element("ae", track)) + cluster)
    error = error_of(data)
    assert error.reason == "too_large" and "at most 4 times its file's size" in str(error)


def growing() -> bytes:
    """A call that was recorded while its picture grew: the header knows only the first size."""
    buffer = io.BytesIO()
    with av.open(buffer, "w", format="webm") as output:
        stream: Any = output.add_stream("libvpx", rate=RATE)
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        for number, scale in enumerate((1, 1, 4, 4)):
            encoder: Any = av.CodecContext.create("libvpx", "w")
            encoder.width, encoder.height = WIDTH * scale, HEIGHT * scale
            encoder.pix_fmt, encoder.time_base = "yuv420p", Fraction(1, RATE)
            encoder.options = {"deadline": "realtime", "cpu-used": "8"}
            pixels = np.full((HEIGHT * scale, WIDTH * scale, 3), grey(number), np.uint8)
            for packet in [*encoder.encode(av.VideoFrame.from_ndarray(pixels)), *encoder.encode()]:
                packet.stream, packet.time_base = stream, Fraction(1, RATE)
                packet.pts = packet.dts = number
                output.mux(packet)
    return buffer.getvalue()


def test_frames_larger_than_the_header_says() -> None:
    data, area = growing(), WIDTH * HEIGHT
    assert shows(load(data, indices=(0, 1)), [0, 1])
    assert shows(load(data, indices=(2, 3)), [2, 3])
    error = error_of(data, sampling=FrameSampling())
    assert error.reason == "unsupported" and "one size; got 64 x 48 and 256 x 192" in str(error)
    last = FrameSampling(indices=(2, 3))
    small = VideoMediaIO(sampling=last, max_total_pixels=2 * area).load_bytes(data).media
    assert shows(small, [2, 3]) and small.frames[0].shape == (HEIGHT, WIDTH, 3)
    error = error_of(data, sampling=last, max_decoded_pixels=31 * area)
    assert error.reason == "too_long" and "got more before the last one" in str(error)
    # The decoder itself refuses what is larger than a frame may be.
    assert error_of(data, sampling=last, max_frame_pixels=15 * area).reason == "truncated"


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(KINDS), st.data())
def test_damage_gives_frames_or_a_media_error(kind: tuple[str, str], data: st.DataObject) -> None:
    damaged = bytearray(made(*kind))
    for _ in range(data.draw(st.integers(1, 5))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    loader = VideoMediaIO(sampling=FrameSampling(count=4), max_frame_pixels=1 << 18)
    try:
        video = loader.load_bytes(bytes(damaged)).media
    except MediaError as error:
        assert error.detail.startswith("expected")
    else:
        assert 1 <= len(video.frames) == len(video.times_s) <= 4
        assert video.times_s == sorted(set(video.times_s))


def test_the_index_of_a_damaged_track_stays_within_the_file() -> None:
    file = io.BytesIO(made("webm", "libvpx"))
    with open_video(file, 1 << 20) as (container, stream):
        index = index_packets(container, stream)
    assert len(index.pts) == FRAMES == len(index.numbers)
    assert [pts for _, pts in index.keys] == [0, 1000, 2000, 3000]


def test_equal_bytes_are_equal_videos() -> None:
    encoded = base64.b64encode(made()).decode()
    loader = VideoMediaIO()
    assert loader.load_base64("video/mp4", encoded) == loader.load_bytes(made())
    assert loader.load_bytes(made()) != loader.load_bytes(made("mov"))
