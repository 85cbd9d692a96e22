"""Videos as lists of JPEG frames, base64 and joined by commas."""

from __future__ import annotations

import base64
import io

import pytest
from PIL import Image as pillow

from lookhear.media.base import MediaError
from lookhear.media.pictures.sampling import FrameSampling
from lookhear.media.pictures.video import Video, VideoMediaIO


def levels(video: Video) -> list[int]:
    return [round(float(frame.mean())) for frame in video.frames]


def still(level: int, size: tuple[int, int] = (16, 8), format: str = "JPEG") -> str:
    buffer = io.BytesIO()
    pillow.new("RGB", size, (level, level, level)).save(buffer, format)
    return base64.b64encode(buffer.getvalue()).decode()


def test_stills_joined_by_commas() -> None:
    data = ",".join(still(level) for level in (10, 60, 110, 160))
    video = VideoMediaIO().load_base64("video/jpeg", data).media
    assert levels(video) == [10, 60, 110, 160]
    assert video.times_s == [0, 0.5, 1, 1.5] and video.duration_s == 2.0  # 2 per second by default
    every = VideoMediaIO(sampling=FrameSampling()).load_base64("video/jpeg;x=y", data).media
    assert every.times_s == [0, 1, 2, 3]
    two = VideoMediaIO(sampling=FrameSampling(count=2)).load_base64("VIDEO/JPEG", data)
    assert levels(two.media) == [10, 160] and two.media.times_s == [0, 3]
    assert two.media.total_frames == 4 and two.original_bytes == data.encode()


def test_of_stills_only_the_chosen_are_decoded() -> None:
    data = ",".join([still(10), "broken", still(30)])
    video = VideoMediaIO(sampling=FrameSampling(indices=(0, 2))).load_stills(data).media
    assert levels(video) == [10, 30]


@pytest.mark.parametrize(
    "data, reason, message",
    [
        ("", "empty", "expected base64 JPEG frames joined by commas; got none"),
        (still(1) + ",", "empty", "frame 1: expected a JPEG, PNG, WebP or GIF image; got 0 bytes"),
        (still(1) + ",%%%", "bad_base64", "frame 1: expected image/jpeg as base64"),
        (still(1) + ",é", "bad_base64", "frame 1: expected image/jpeg as base64"),
        (still(1, format="PNG"), "not_image", "frame 0: expected a JPEG image; got png"),
        (still(1)[:-40], "truncated", "frame 0: expected a complete image"),
        (still(1) + "," + still(1, (8, 16)), "unsupported", "one size; got 16 x 8 and 8 x 16"),
    ],
)
def test_wrong_stills(data: str, reason: str, message: str) -> None:
    with pytest.raises(MediaError) as caught:
        VideoMediaIO().load_stills(data)
    assert caught.value.reason == reason and message in str(caught.value)


def test_limits_of_stills() -> None:
    data = ",".join([still(10)] * 10)
    for options, reason in (
        ({"max_frame_pixels": 127}, "too_large"),
        ({"max_total_pixels": 1279}, "too_large"),
        ({"max_seconds": 4.9}, "too_long"),
        ({"max_bytes": 1000}, "too_large"),
    ):
        with pytest.raises(MediaError) as caught:
            VideoMediaIO(**options).load_stills(data)
        assert caught.value.reason == reason
    assert (
        len(VideoMediaIO(max_total_pixels=1280, max_seconds=5).load_stills(data).media.frames) == 10
    )


def test_equal_lists_are_equal_videos() -> None:
    one, two = still(1) + "," + still(2), still(2) + "," + still(1)
    loader = VideoMediaIO()
    assert loader.load_stills(one) == loader.load_stills(one) != loader.load_stills(two)
