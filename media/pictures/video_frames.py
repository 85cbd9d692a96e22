"""Chosen frames of a video file, decoding only what they depend on.

A first pass reads the packets and decodes nothing: it gives the number and the times of all frames,
exactly, and where the keyframes are. A second one decodes, for every chosen frame, from the last
keyframe before it. No seeking: containers differ in what they find.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, BinaryIO

import av
import numpy as np
from av.stream import Disposition
from numpy.typing import NDArray

from lookhear.media.audio.containers import declared_seconds, demux
from lookhear.media.base import MediaError
from lookhear.media.ffmpeg import open_container
from lookhear.media.mp4_limits import check_mp4, is_mp4
from lookhear.media.signatures import describe

__all__ = ["PacketIndex", "decode_frames", "decoding_plan", "index_packets", "open_video"]

Pixels = NDArray[np.uint8]

EXPECTED = "expected an MP4, WebM or Matroska video"
MAX_EXPANSION = 4  # of the tracks by the container's own compression
# FFmpeg's names. Other decoders are old, rare and little tested against bad input.
CODECS = ("h264", "hevc", "vp8", "vp9", "av1", "libdav1d", "mpeg4", "mjpeg")
# Width of a pixel over its height, beyond which (and below 1 over it) a header is not believed.
# Those of television and of anamorphic film are up to 2.
MAX_PIXEL_ASPECT = 4
# Display matrices that turn by so many quarters, counterclockwise.
QUARTERS = ((1, 0, 0, 1), (0, -1, 1, 0), (-1, 0, 0, -1), (0, 1, -1, 0))


@dataclass(frozen=True, slots=True)
class PacketIndex:
    """Of one video track. Packets are numbered from 0 in the order of decoding.

    pts: [n] of the frames shown, ascending, in units of `time_base` seconds; numbers: [n] the
    packet of each. keys: numbers and pts of the keyframes, ascending. end_s: end of the last
    frame, seconds after the start of the first.
    """

    pts: list[int]
    numbers: list[int]
    keys: list[tuple[int, int]]
    time_base: Fraction
    end_s: float

    @property
    def times_s(self) -> list[float]:
        """[n] seconds after the first frame."""
        return [float((pts - self.pts[0]) * self.time_base) for pts in self.pts]


@contextmanager
def open_video(file: BinaryIO, max_pixels: int) -> Iterator[tuple[Any, Any]]:
    """(container, the video track that players show), from its beginning. Raises MediaError."""
    file.seek(0)
    head = file.read(512)
    file.seek(0)
    name, _ = describe(head)
    if not head:
        raise MediaError("empty", f"{EXPECTED}; got 0 bytes")
    demuxer = "matroska"
    if is_mp4(head):
        check_mp4(file)
        demuxer = "mov"
    limits = {"max_pixels": str(max_pixels)}
    options = {"format_whitelist": demuxer, "codec_whitelist": ",".join(CODECS), **limits}
    try:
        container = open_container(file, options)
    except (av.FFmpegError, OSError, ValueError) as error:
        if demuxer == "mov" or name == "a WebM or Matroska file":
            raise MediaError(
                "truncated",
                f"expected a complete video; got {name} without a frame that can be decoded: "
                "empty, truncated or damaged",
            ) from error
        raise MediaError("not_video", f"{EXPECTED}; got {name}") from error
    with container:
        if not container.streams:
            raise MediaError(
                "truncated", f"expected a complete video; got {name} that is empty or truncated"
            )
        films = [s for s in container.streams.video if not s.disposition & Disposition.attached_pic]
        if not films:  # the cover of a song is none
            raise MediaError("no_video_track", f"{EXPECTED}; got {name} without a video track")
        stream = max(films, key=lambda film: bool(film.disposition & Disposition.default))
        codec = stream.codec_context
        if codec is None or codec.name not in CODECS:
            raise MediaError(
                "unsupported",
                f"expected a video coded as one of {', '.join(CODECS)}; "
                f"got {'an unknown or damaged one' if codec is None else codec.name}",
            )
        check_size(codec.width, codec.height, max_pixels)
        codec.options = limits
        codec.thread_count = 1  # a media worker is one thread; and more would decode ahead
        yield container, stream


def index_packets(container: Any, stream: Any) -> PacketIndex:
    """Raises MediaError: "empty" for a track without frames, "truncated" if its end is missing."""
    shown: dict[int, int] = {}  # pts -> packet
    keys: list[tuple[int, int]] = []
    end = 0
    for number, packet in packets_of(container, stream):
        if packet.pts is None:
            continue
        if packet.is_keyframe:
            keys.append((number, packet.pts))
        if not packet.is_discard:  # cut off by the file's own edit list
            shown[packet.pts] = number
            end = max(end, packet.pts + (packet.duration or 0))
    declared_s = declared_seconds(container, stream)
    if not shown:
        if declared_s:
            raise truncated(declared_s, 0)
        raise MediaError("empty", f"{EXPECTED}; got one without a single frame")
    pts = sorted(shown)
    end_s = float((end - pts[0]) * stream.time_base)
    # Matroska counts from 0, MP4 from the first frame. The last frame may be stated as longer than
    # it is, and rounding makes small differences normal.
    found_s = max(end_s, float(end * stream.time_base))
    if declared_s is not None and found_s < 0.99 * declared_s - 0.5:
        raise truncated(declared_s, found_s)
    return PacketIndex(pts, [shown[p] for p in pts], keys, stream.time_base, end_s)


def decoding_plan(index: PacketIndex, chosen: Sequence[int]) -> list[range]:
    """Frames, ascending -> the packets to decode, as ascending ranges that do not touch.

    A frame needs the packets from a keyframe that comes before it both in decoding and in showing:
    what follows a keyframe and is shown before it may refer to frames before that.
    """
    starts = [number for number, _ in index.keys]
    spans: list[tuple[int, int]] = []
    for frame in chosen:
        number, pts = index.numbers[frame], index.pts[frame]
        at = bisect_right(starts, number) - 1
        while at >= 0 and index.keys[at][1] > pts:
            at -= 1
        spans.append((starts[at] if at >= 0 else 0, number + 1))
    ranges: list[range] = []
    for start, stop in sorted(spans):
        if ranges and start <= ranges[-1].stop:
            ranges[-1] = range(ranges[-1].start, max(stop, ranges[-1].stop))
        else:
            ranges.append(range(start, stop))
    return ranges


def decode_frames(
    container: Any,
    stream: Any,
    index: PacketIndex,
    chosen: Sequence[int],
    *,
    max_pixels: int,
    max_decoded_pixels: int,
    fit_pixels: int,
) -> Iterator[tuple[float, Pixels]]:
    """(seconds after the first frame, [height, width, 3] RGB, upright) for each chosen frame.

    Ascending. A chosen frame that is damaged or never shown is replaced by the one on display at
    its time, and left out if that was given already. max_pixels: of a frame; max_decoded_pixels: of
    all that are decoded, since frames may be larger than the header says; fit_pixels: to which
    larger ones are scaled down.
    """
    decoded, aspect = 0, pixel_aspect(stream)
    wanted = deque(index.pts[frame] for frame in sorted(chosen))
    last: Any = None  # the frame on display
    given: int | None = None

    def take(frame: Any) -> Iterator[tuple[float, Pixels]]:
        nonlocal given
        if frame is not None and frame.pts != given:
            given = frame.pts
            check_size(frame.width, frame.height, max_pixels)
            time_s = float((frame.pts - index.pts[0]) * index.time_base)
            yield time_s, upright(frame, aspect, fit_pixels)

    for frames, end in decoded_ranges(container, stream, decoding_plan(index, chosen)):
        for frame in frames:
            decoded += frame.width * frame.height
            if decoded > max_decoded_pixels:
                raise MediaError(
                    "too_long",
                    f"expected frames that decoding {max_decoded_pixels} pixels can reach; got "
                    "more before the last one",
                )
            if frame.pts is None:
                continue
            while wanted and wanted[0] < frame.pts:
                wanted.popleft()
                yield from take(last)
            if wanted and wanted[0] == frame.pts:
                wanted.popleft()
                yield from take(frame)
            last = frame
        if end:  # the next range is of another time
            last = None
    if wanted:
        yield from take(last)


def decoded_ranges(
    container: Any, stream: Any, plan: Sequence[range]
) -> Iterator[tuple[list[Any], bool]]:
    """Decoded frames in the order of showing, and whether a range ends with them."""
    codec = stream.codec_context
    ranges = iter(plan)
    current = next(ranges, None)
    for number, packet in packets_of(container, stream):
        if current is None:
            return
        if number not in current:
            continue
        yield attempt(codec, packet), False
        if number == current[-1]:
            # The decoder holds back some frames to put them in order.
            yield attempt(codec, None), True
            codec.flush_buffers()
            current = next(ranges, None)


def attempt(codec: Any, packet: Any | None) -> list[Any]:
    """The frames that are ready, of a damaged packet none, as players do. None: those held back."""
    try:
        return list(codec.decode(packet))
    except av.FFmpegError:
        return []


def packets_of(container: Any, stream: Any) -> Iterator[tuple[int, Any]]:
    """(number, packet) of the track. Raises MediaError for a Matroska file whose tracks are
    compressed once more and beyond measure: 10 kB of it can unpack to 10 MB."""
    limit = container.size * MAX_EXPANSION + (1 << 26)
    unpacked = number = 0
    for packet in demux(container):  # of all tracks, since all are unpacked
        unpacked += packet.size
        if unpacked > limit:
            raise MediaError(
                "too_large",
                f"expected a video of at most {MAX_EXPANSION} times its file's size; got more",
            )
        if packet.size and packet.stream_index == stream.index:  # an empty one marks the end
            yield number, packet
            number += 1


def pixel_aspect(stream: Any) -> float:
    """Width of a stored pixel over its height; 1 where none is told, or none that can be."""
    aspect = float(stream.sample_aspect_ratio or 1)
    return aspect if 1 / MAX_PIXEL_ASPECT <= aspect <= MAX_PIXEL_ASPECT else 1.0


def upright(frame: Any, aspect: float, fit_pixels: int) -> Pixels:
    """As a screen shows it, with about as many pixels as are stored: phones store what the sensor
    saw and, beside it, how to turn it; television's pixels are not square."""
    wide = frame.width * aspect**0.5, frame.height / aspect**0.5
    width, height = fitting(max(1, round(wide[0])), max(1, round(wide[1])), fit_pixels)
    # Else threads are begun for every frame, which end when it is no more: at some collection.
    pixels = frame.to_ndarray(
        format="rgb24", width=width, height=height, interpolation="AREA", threads=1
    )
    a, b, c, d = display_matrix(frame)
    if abs(b) + abs(c) > abs(a) + abs(d):
        pixels, a, d = pixels.transpose(1, 0, 2), c, b
    return np.ascontiguousarray(pixels[:: -1 if d < 0 else 1, :: -1 if a < 0 else 1])


def display_matrix(frame: Any) -> tuple[int, int, int, int]:
    """(a, b, c, d): a pixel at (x, y) is shown at (a x + c y, b x + d y), seen from the middle; all
    0 says nothing. ISO 14496-12, 6.2.2."""
    try:
        matrix = frame.side_data.get("DISPLAYMATRIX")
    except ValueError:  # PyAV has no name for what else is told of the frame, as with EXIF
        return QUARTERS[round(frame.rotation / 90) % 4]
    if matrix is None:
        return QUARTERS[0]
    a, b, _, c, d = struct.unpack("=5i", bytes(matrix)[:20])
    return a, b, c, d


def fitting(width: int, height: int, pixels: int) -> tuple[int, int]:
    """The size as it is or, of the same shape, the largest one of at most so many pixels."""
    if width * height <= pixels:
        return width, height
    scale = (pixels / (width * height)) ** 0.5
    return max(1, int(width * scale)), max(1, int(height * scale))


def check_size(width: int, height: int, max_pixels: int) -> None:
    if width * height > max_pixels:
        raise MediaError(
            "too_large",
            f"expected video frames of at most {max_pixels} pixels; got {width} x {height}",
        )


def truncated(declared_s: float, found_s: float) -> MediaError:
    return MediaError(
        "truncated",
        f"expected a complete video; its header declares {declared_s:.2f} s, but its frames end "
        f"at {found_s:.2f} s: truncated or damaged",
    )
