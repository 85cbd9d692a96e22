"""Videos -> some of their frames as RGB pixels, with the times at which they are shown."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass

from lookhear.media.base import MediaError, MediaIO, MediaWithBytes, check_bytes
from lookhear.media.pictures.image import MAX_PIXELS, ImageMediaIO, Pixels
from lookhear.media.pictures.sampling import FrameSampling, choose_frames
from lookhear.media.pictures.video_frames import (
    decode_frames,
    decoding_plan,
    index_packets,
    open_video,
)

__all__ = ["Video", "VideoMediaIO"]

STILLS = "video/jpeg"  # frames as a list of base64 JPEG images, joined by commas
DEFAULT_SAMPLING = FrameSampling(fps=2.0)
MAX_FRAME_PIXELS = MAX_PIXELS // 2
MAX_TOTAL_PIXELS = 1 << 27  # 400 MB as RGB
# 18 minutes of full HD between keyframes: a minute or two of one core.
MAX_DECODED_PIXELS = 1 << 36


@dataclass(frozen=True, eq=False)
class Video:
    """frames: [height, width, 3] uint8 RGB each, upright, all of one size; times_s: when each is
    shown, seconds after the video's first frame, ascending. duration_s and total_frames are those
    of the whole video; `codec` and `container` name how it was stored.
    """

    frames: list[Pixels]
    times_s: list[float]
    duration_s: float
    total_frames: int
    codec: str
    container: str


@dataclass(frozen=True, eq=False, kw_only=True)
class VideoMediaIO(MediaIO[Video]):
    """MP4 (also MOV, M4V), WebM and Matroska files, and lists of JPEG frames, under limits.

    Nothing is decoded but the chosen frames and those they are predicted from. max_frame_pixels:
    of one frame; max_total_pixels: of the chosen frames together: if they have more, all are scaled
    down (of JPEG lists, refused); max_decoded_pixels: of all frames that must be decoded for them;
    max_seconds: of the whole video.
    """

    sampling: FrameSampling = DEFAULT_SAMPLING
    max_frame_pixels: int = MAX_FRAME_PIXELS
    max_total_pixels: int = MAX_TOTAL_PIXELS
    max_decoded_pixels: int = MAX_DECODED_PIXELS
    max_seconds: float | None = None
    max_bytes: int | None = None

    def load_bytes(self, data: bytes) -> MediaWithBytes[Video]:
        """Raises MediaError: "empty", "not_video", "no_video_track", "unsupported", "truncated",
        "too_long", "too_short", "too_large"."""
        check_bytes(len(data), self.max_bytes)
        file = io.BytesIO(data)
        with open_video(file, self.max_frame_pixels) as (container, stream):
            index = index_packets(container, stream)
        self.check_duration(index.end_s)
        chosen = choose_frames(index.times_s, index.end_s, self.sampling)
        with open_video(file, self.max_frame_pixels) as (container, stream):
            size = (stream.codec_context.width, stream.codec_context.height)
            decoded = sum(len(part) for part in decoding_plan(index, chosen))
            self.check_work(size, len(chosen), decoded)
            frames: list[Pixels] = []
            times_s: list[float] = []
            for time_s, pixels in decode_frames(
                container,
                stream,
                index,
                chosen,
                max_pixels=self.max_frame_pixels,
                max_decoded_pixels=self.max_decoded_pixels,
                fit_pixels=self.max_total_pixels // max(1, len(chosen)),
            ):
                frames.append(pixels)
                times_s.append(time_s)
                check_one_size(frames)
            if not frames:
                raise MediaError(
                    "truncated",
                    f"expected a complete video; got one of {len(index.pts)} frames of which none "
                    "that was chosen can be decoded: truncated or damaged",
                )
            video = Video(
                frames,
                times_s,
                index.end_s,
                len(index.pts),
                stream.codec_context.name,
                container.format.name.split(",")[0],
            )
        return MediaWithBytes(video, data)

    def load_base64(self, media_type: str, data: str) -> MediaWithBytes[Video]:
        """As for every medium; but "video/jpeg" is a list of frames, `load_stills`."""
        if media_type.partition(";")[0].strip().lower() == STILLS:
            return self.load_stills(data)
        return super().load_base64(media_type, data)

    def load_stills(self, data: str) -> MediaWithBytes[Video]:
        """Base64 JPEG frames joined by commas. Such a list has no times of its own: `sampling.fps`
        is the rate at which its frames were taken, 1 per second without it, so fps chooses nothing
        here. `count` and `indices` choose as in every video.
        """
        original = data.encode("ascii", "replace")  # what is beyond it is no base64: refused below
        check_bytes(len(original) * 3 // 4, self.max_bytes)
        parts = data.split(",")
        if parts == [""]:
            raise MediaError("empty", "expected base64 JPEG frames joined by commas; got none")
        rate = self.sampling.fps or 1.0
        times = [number / rate for number in range(len(parts))]
        self.check_duration(len(parts) / rate)
        chosen = choose_frames(times, len(parts) / rate, self.sampling)
        loader = ImageMediaIO(max_pixels=self.max_frame_pixels)
        frames: list[Pixels] = []
        total = 0
        for number in chosen:
            try:
                image = loader.load_base64("image/jpeg", parts[number]).media
            except MediaError as error:
                raise MediaError(error.reason, f"frame {number}: {error.detail}") from error
            if image.format != "jpeg":
                raise MediaError(
                    "not_image", f"frame {number}: expected a JPEG image; got {image.format}"
                )
            frames.append(image.pixels)
            check_one_size(frames)
            total += image.pixels.shape[0] * image.pixels.shape[1]
            self.check_total(total, len(chosen))
        video = Video(
            frames,
            [times[number] for number in chosen],
            len(parts) / rate,
            len(parts),
            "jpeg",
            "stills",
        )
        return MediaWithBytes(video, original)

    def check_duration(self, seconds: float) -> None:
        if self.max_seconds is not None and seconds > self.max_seconds:
            raise MediaError(
                "too_long",
                f"expected a video of at most {self.max_seconds:g} s; got {seconds:.2f} s",
            )

    def check_work(self, size: tuple[int, int], chosen: int, decoded: int) -> None:
        """Before anything is decoded."""
        width, height = size
        if decoded * width * height > self.max_decoded_pixels:
            raise MediaError(
                "too_long",
                f"expected frames that decoding {self.max_decoded_pixels} pixels can reach; got "
                f"{chosen} for which {decoded} of {width} x {height} must be decoded",
            )

    def check_total(self, pixels: int, chosen: int) -> None:
        if pixels > self.max_total_pixels:
            raise MediaError(
                "too_large",
                f"expected frames of at most {self.max_total_pixels} pixels together; got {chosen} "
                f"frames with {pixels} or more: choose fewer",
            )


def check_one_size(frames: Sequence[Pixels]) -> None:
    """Of the last frame, so that it can be asked after each."""
    if frames[-1].shape != frames[0].shape:
        height, width = frames[0].shape[:2]
        raise MediaError(
            "unsupported",
            f"expected frames of one size; got {width} x {height} and "
            f"{frames[-1].shape[1]} x {frames[-1].shape[0]}",
        )
