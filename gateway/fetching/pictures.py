"""What messages point at - images, videos, recordings - fetched, decoded and named.

Decoding is done in media threads. Whatever is wrong with a URL or with what is behind it is an
`ApiError` (400) that begins with the path of its place in the request.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from lookhear.gateway.config import GatewayConfig
from lookhear.gateway.fetching.fetcher import Fetcher, InThread
from lookhear.gateway.http.errors import ApiError
from lookhear.media.audio.decode import AudioMediaIO
from lookhear.media.base import DIGEST_BYTES, FetchError, MediaError, MediaIO, MediaWithBytes
from lookhear.media.fetching.rules import FetchPolicy
from lookhear.media.pictures.image import Image, ImageMediaIO
from lookhear.media.pictures.sampling import FrameSampling
from lookhear.media.pictures.video import Video, VideoMediaIO

T = TypeVar("T")

Pixels = NDArray[np.uint8]
Samples = NDArray[np.float32]
Kind = Literal["image", "video", "audio"]


@dataclass(frozen=True, eq=False)
class Picture:
    """name: hex digest of what was sent, so the same picture has the same name again.
    pixels: [height, width, 3] uint8, RGB."""

    name: str
    pixels: Pixels

    @property
    def num_pixels(self) -> int:
        """Count height times width."""
        return int(self.pixels.shape[0] * self.pixels.shape[1])


@dataclass(frozen=True, eq=False)
class Clip:
    """The chosen frames of a video, all of one size, and when each is shown, in seconds."""

    frames: list[Picture]
    seconds: list[float]


@dataclass(slots=True)
class PictureBudget:
    """How many pictures (frames of videos among them) and pixels one request may still hold.

    `take` raises ApiError (400) when it is spent. The same picture is paid for once.
    """

    max_pictures: int
    max_pixels: int
    _names: set[str] = field(default_factory=set)
    _pixels: int = 0

    def take(self, pictures: list[Picture], path: str) -> None:
        """Pay for these. path: of what they came from in the request."""
        for picture in pictures:
            if picture.name in self._names:
                continue
            self._names.add(picture.name)
            self._pixels += picture.num_pixels
        if len(self._names) > self.max_pictures:
            most = f"at most {self.max_pictures} different pictures in a request"
            message = f"{path}: expected {most}, the frames of videos among them; got more"
            raise ApiError(400, message, code="too_many_pictures", param=path)
        if self._pixels > self.max_pixels:
            most = f"pictures of at most {self.max_pixels} pixels together"
            message = f"{path}: expected {most}; got {self._pixels}"
            raise ApiError(400, message, code="pictures_too_large", param=path)


class Pictures:
    """Loads media under the gateway's limits. path: of the URL's place in the request, like
    "messages[0].content[1].image_url.url". Every method raises ApiError (400) only."""

    def __init__(self, config: GatewayConfig, fetcher: Fetcher, in_thread: InThread) -> None:
        self._config = config
        self._fetcher = fetcher
        self._in_thread = in_thread
        self.policy = FetchPolicy(
            max_bytes=config.max_media_bytes,
            timeout_s=config.fetch_timeout_seconds,
            allow_networks=config.allow_networks,
            local_folder=config.media_folder,
        )
        self._images = ImageMediaIO(
            max_pixels=config.max_image_pixels, max_bytes=config.max_media_bytes
        )
        self._videos = VideoMediaIO(
            sampling=FrameSampling(fps=config.video_fps, max_frames=config.max_video_frames),
            max_frame_pixels=config.max_image_pixels,
            max_total_pixels=config.max_request_pixels // 2,
            max_bytes=config.max_media_bytes,
        )
        self._audio = AudioMediaIO(
            max_seconds=config.max_turn_seconds, max_bytes=config.max_media_bytes
        )

    def budget(self) -> PictureBudget:
        """A fresh one, for one request."""
        return PictureBudget(self._config.max_pictures, self._config.max_request_pixels)

    async def image(self, url: str, path: str) -> Picture:
        """An image behind a data:, http(s): or, if there is a folder for it, file: URL."""
        loaded = await self._load(url, self._images, path, "image")
        return await self._in_thread(lambda: _picture(loaded))

    async def video(self, url: str, path: str) -> Clip:
        """Frames of a video, sampled at the configured rate."""
        loaded = await self._load(url, self._videos, path, "video")
        return await self._in_thread(lambda: _clip(loaded.media))

    async def audio(self, url: str, path: str) -> Samples:
        """-> [n] float32 mono at 16 kHz."""
        return (await self._load(url, self._audio, path, "audio")).media.samples

    async def audio_base64(self, data: str, path: str) -> Samples:
        """A whole audio file in base64 -> [n] float32 mono at 16 kHz."""
        work = self._in_thread(lambda: self._audio.load_base64("the data", data))
        return (await _told(work, path, "audio")).media.samples

    async def _load(self, url: str, loader: MediaIO[T], path: str, kind: Kind) -> MediaWithBytes[T]:
        return await _told(self._fetcher.load(url, loader, self.policy), path, kind)


def _picture(loaded: MediaWithBytes[Image]) -> Picture:
    return Picture(loaded.digest.hex(), loaded.media.pixels)


def _clip(video: Video) -> Clip:
    """Frames are named by their pixels: there is no file of each."""
    frames = [Picture(_digest(pixels), pixels) for pixels in video.frames]
    return Clip(frames, video.times_s)


def _digest(pixels: Pixels) -> str:
    shape = np.asarray(pixels.shape, dtype="<u4").tobytes()
    digest = hashlib.blake2b(shape, digest_size=DIGEST_BYTES)
    digest.update(np.ascontiguousarray(pixels).data)
    return digest.hexdigest()


async def _told(work: Awaitable[T], path: str, kind: Kind) -> T:
    """The result of `work`; its MediaError as an ApiError about the place it came from."""
    try:
        return await work
    except FetchError as error:
        raise ApiError(400, f"{path}: {error}", code=f"invalid_{kind}_url", param=path) from None
    except MediaError as error:
        raise ApiError(400, f"{path}: {error}", code=f"invalid_{kind}", param=path) from None
