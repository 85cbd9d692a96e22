"""What client events point at, and how it is loaded.

The protocol says what it needs before it carries out a command, and gets it by its path in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray
from PIL import Image as pillow

from lookhear.gateway.checks.checks import ProtocolError
from lookhear.gateway.decoding.results import Picture
from lookhear.gateway.fetching.fetcher import InThread
from lookhear.gateway.fetching.pictures import Pictures
from lookhear.gateway.http.errors import ApiError
from lookhear.gateway.realtime.pictures.camera import DecodedFrame
from lookhear.gateway.slots import Claim
from lookhear.media.audio.pcm import AudioFormat, PcmStream
from lookhear.media.pictures.similarity import thumbnail
from lookhear.media.voice.silero import SileroModel
from lookhear.media.voice.stretches import speech_stretches

Samples = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Recording:
    """Of somebody, perhaps. samples: [n] float32 at 16 kHz. voiced_until: where the speech in it
    ends; 0: nobody speaks."""

    samples: Samples
    voiced_until: int


Media = Mapping[str, Picture | DecodedFrame | Recording]
"""By path in the event: images, frames of the camera, what is to be heard."""


@dataclass(frozen=True, slots=True)
class ImageRequest:
    """url: data:, http(s): or, if the server allows, file:."""

    path: str
    url: str


@dataclass(frozen=True, slots=True)
class FrameRequest:
    """Of the camera: at most max_pixels, and with its thumbnail."""

    path: str
    url: str
    max_pixels: int


@dataclass(frozen=True, slots=True)
class AudioRequest:
    """Speech in an item: bytes of this format."""

    path: str
    audio: bytes
    format: AudioFormat


MediaRequest = ImageRequest | FrameRequest | AudioRequest


async def load(
    requests: Sequence[MediaRequest],
    pictures: Pictures,
    silero: SileroModel,
    in_thread: InThread,
    claim: Claim,
) -> Media:
    """One after the other, so that no more than the budget is ever in memory. claim: for whom.
    Raises ProtocolError, which names the path of what cannot be used."""
    media: dict[str, Picture | DecodedFrame | Recording] = {}
    budget = pictures.budget()
    for request in requests:
        if isinstance(request, AudioRequest):
            media[request.path] = await in_thread(partial(_decoded, request, silero))
            continue
        try:
            picture = await pictures.image(request.url, request.path, claim)
            budget.take([picture], request.path)
        except ApiError as error:
            code = error.code or "invalid_image"
            raise ProtocolError(error.message, code=code, param=error.param) from None
        media[request.path] = picture
        if isinstance(request, FrameRequest):
            media[request.path] = await in_thread(partial(_seen, picture, request.max_pixels))
    return media


def _decoded(request: AudioRequest, silero: SileroModel) -> Recording:
    stream = PcmStream(request.format)
    samples = np.concatenate([stream.feed(request.audio), stream.flush()])
    speech = speech_stretches(silero, samples)
    return Recording(samples, speech[-1][1] if speech else 0)


def _seen(picture: Picture, max_pixels: int) -> DecodedFrame:
    small = scaled(picture, max_pixels)
    return DecodedFrame(small, thumbnail(small.pixels))


def scaled(picture: Picture, max_pixels: int) -> Picture:
    """The picture itself if it is small enough, else a smaller one with a name of its own."""
    if picture.num_pixels <= max_pixels:
        return picture
    height, width = picture.pixels.shape[:2]
    factor = (max_pixels / picture.num_pixels) ** 0.5
    size = max(1, int(width * factor)), max(1, int(height * factor))
    image = pillow.fromarray(picture.pixels).resize(size, pillow.Resampling.BOX)
    return Picture(f"{picture.name}-{size[0]}x{size[1]}", np.asarray(image, dtype=np.uint8))
