"""Media that messages point at: what is loaded, and which place an error names."""

from __future__ import annotations

import base64
import io
import wave
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np
import pytest
from PIL import Image as pillow

from lookhear.gateway.config import GatewayConfig
from lookhear.gateway.decoding.results import Picture
from lookhear.gateway.fetching.fetcher import Fetcher
from lookhear.gateway.fetching.pictures import Pictures
from lookhear.gateway.http.errors import ApiError
from tests.gateway.chatting import data_url, png
from tests.gateway.decoding.direct import ANYONE, decode_here

pytestmark = pytest.mark.asyncio

T = TypeVar("T")

PATH = "messages[0].content[1].image_url.url"


async def at_once(work: Callable[[], T], /) -> T:
    return work()


def pictures(config: GatewayConfig | None = None) -> Pictures:
    return Pictures(config or GatewayConfig(), Fetcher(at_once), decode_here)


async def refused(url: str, loader: Pictures, kind: str = "image") -> ApiError:
    with pytest.raises(ApiError) as caught:
        await getattr(loader, kind)(url, PATH, ANYONE)
    error = caught.value
    assert error.status == 400
    assert error.param == PATH
    assert error.message.startswith(f"{PATH}: expected ")
    return error


async def test_the_same_bytes_have_the_same_name() -> None:
    loader = pictures()
    first = await loader.image(data_url(png(8, 6)), PATH, ANYONE)
    assert first.pixels.shape == (6, 8, 3)
    assert first.pixels.dtype == np.uint8
    assert len(first.name) == 32
    assert (await loader.image(data_url(png(8, 6)), PATH, ANYONE)).name == first.name
    assert (await loader.image(data_url(png(6, 8)), PATH, ANYONE)).name != first.name


async def test_a_video_is_sampled_and_its_frames_are_named_by_what_they_show() -> None:
    stills = []
    for shade in (0, 120, 0):
        file = io.BytesIO()
        pillow.new("RGB", (16, 12), (shade, shade, shade)).save(file, "jpeg")
        stills.append(base64.b64encode(file.getvalue()).decode())
    clip = await pictures().video("data:video/jpeg;base64," + ",".join(stills), PATH, ANYONE)
    assert clip.seconds == [0.0, 0.5, 1.0]
    names = [frame.name for frame in clip.frames]
    assert names[0] == names[2] != names[1]
    assert clip.frames[0].pixels.shape == (12, 16, 3)


async def test_audio_is_16_khz_mono() -> None:
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(2)
        out.setsampwidth(2)
        out.setframerate(8000)
        out.writeframes(bytes(4 * 4000))
    heard = await pictures().audio(data_url(file.getvalue(), "audio/wav"), PATH, ANYONE)
    assert len(heard.samples) == 8000 and heard.speech == []
    text = base64.b64encode(file.getvalue()).decode()
    assert len((await pictures().audio_base64(text, PATH, ANYONE)).samples) == 8000
    with pytest.raises(ApiError, match="as base64"):
        await pictures().audio_base64("!", PATH, ANYONE)


@pytest.mark.parametrize(
    ("url", "code"),
    [
        (data_url(b"not a picture"), "invalid_image"),
        (data_url(png(8, 6)[:40]), "invalid_image"),
        (data_url(png(101, 100)), "invalid_image"),  # more than the limit below
        ("data:image/png;base64,???", "invalid_image"),
        ("data:image/png,abc", "invalid_image_url"),
        ("http://127.0.0.1/a.png", "invalid_image_url"),
        ("http://[::1]/a.png", "invalid_image_url"),
        ("ftp://example.org/a.png", "invalid_image_url"),
        ("file:///etc/passwd", "invalid_image_url"),
        ("", "invalid_image_url"),
    ],
)
async def test_what_cannot_be_loaded_names_its_place(url: str, code: str) -> None:
    error = await refused(url, pictures(GatewayConfig(max_image_pixels=10_000)))
    assert error.code == code


async def test_other_kinds_are_named_in_the_code() -> None:
    empty = data_url(b"", "video/mp4")
    assert (await refused(empty, pictures(), "video")).code == "invalid_video"
    assert (await refused(empty, pictures(), "audio")).code == "invalid_audio"


async def test_files_only_below_the_folder(tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "a.png").write_bytes(png(8, 6))
    (tmp_path / "b.png").write_bytes(png(8, 6))
    loader = pictures(GatewayConfig(media_folder=inside))
    assert (await loader.image(f"file://{inside}/a.png", PATH, ANYONE)).num_pixels == 48
    await refused(f"file://{inside}/../b.png", loader)
    await refused(f"file://{inside}/c.png", loader)


async def test_the_budget_counts_a_picture_once() -> None:
    config = GatewayConfig(max_pictures=2, max_request_pixels=100)
    budget = pictures(config).budget()
    small = Picture("small", np.zeros((5, 10, 3), np.uint8))
    for _ in range(3):
        budget.take([small], PATH)
    budget.take([Picture("other", np.zeros((5, 10, 3), np.uint8))], PATH)
    with pytest.raises(ApiError, match="at most 2 different") as caught:
        budget.take([Picture("third", np.zeros((1, 1, 3), np.uint8))], PATH)
    assert caught.value.code == "too_many_pictures"
    with pytest.raises(ApiError, match="at most 100 pixels together; got 101"):
        pictures(config).budget().take([Picture("big", np.zeros((1, 101, 3), np.uint8))], PATH)
