"""What a decoder can be asked: files in, arrays and a few words about them out.

Runs in a decoder's process only. Whatever is wrong with a file is a MediaError; the results are
what `gateway.decoding.results` reads.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from lookhear.media.audio.decode import AudioMediaIO
from lookhear.media.audio.live_container import WEBM, LiveContainer
from lookhear.media.audio.ogg import OGG
from lookhear.media.audio.opus_packets import OpusPackets
from lookhear.media.base import DIGEST_BYTES, MediaIO, MediaWithBytes
from lookhear.media.pictures.image import ImageMediaIO
from lookhear.media.pictures.sampling import FrameSampling
from lookhear.media.pictures.video import VideoMediaIO
from lookhear.media.tensors.embeddings import EmbeddingsMediaIO
from lookhear.media.voice.silero import SileroModel
from lookhear.media.voice.stretches import speech_stretches
from lookhear.media.voice.vad import VadConfig

T = TypeVar("T")

Options = Mapping[str, Any]
Answer = tuple[dict[str, Any], list[NDArray[Any]]]


@dataclass(frozen=True, slots=True)
class Encoded:
    """A file: its bytes, or its base64 text in UTF-8 if its media type is told ("image/png")."""

    data: bytes
    media_type: str | None = None


Job = Callable[[Encoded, Options], Answer]


class Jobs:
    """By name. Made once, in the process that all decoders are copies of."""

    def __init__(self) -> None:
        self._silero = SileroModel()
        self._packed: LiveContainer | OpusPackets | None = None
        self.by_name: dict[str, Job] = {
            "recording": self.recording,
            "packed": self.packed,
            "image": image,
            "video": video,
            "embeddings": embeddings,
        }

    def recording(self, encoded: Encoded, options: Options) -> Answer:
        """[n] float32 at 16 kHz, and where somebody speaks: [k, 2] samples, if `voices` says how
        to look (the fields of a VadConfig). Of its `first_seconds` only, and of one `channel`,
        unless they are None."""
        voices = options["voices"]
        loader = AudioMediaIO(
            max_seconds=options["max_seconds"],
            max_bytes=options["max_bytes"],
            first_seconds=options["first_seconds"],
            channel=options["channel"],
        )
        audio = loaded(loader, encoded).media
        samples, told = audio.samples, {"whole": audio.is_whole, "channels": audio.channels}
        if voices is None:
            return told, [samples]
        speech = speech_stretches(self._silero, samples, VadConfig(**voices))
        return told, [samples, np.array(speech, np.int64).reshape(-1, 2)]

    def packed(self, encoded: Encoded, options: Options) -> Answer:
        """The next message of the audio that this decoder has for itself; at the end with `ends`.
        packing: "container", or "opus", whose messages are packets; but a container shows. [n] 16
        bits at 16 kHz, in bytes, and whether there are more: they come for a message without any.
        """
        if self._packed is None:
            is_bare = options["packing"] == "opus" and not encoded.data.startswith((WEBM, OGG))
            self._packed = OpusPackets() if is_bare else LiveContainer()
        self._packed.feed(encoded.data)
        if options["ends"]:
            self._packed.end()
        samples, more = self._packed.take()
        linear = np.clip(np.rint(samples * 32768), -32768, 32767).astype("<i2")
        return {"more": more}, [linear.view(np.uint8)]


def image(encoded: Encoded, options: Options) -> Answer:
    """[height, width, 3] uint8, and the digest of the file."""
    loader = ImageMediaIO(max_pixels=options["max_pixels"], max_bytes=options["max_bytes"])
    shown = loaded(loader, encoded)
    return {"name": shown.digest.hex()}, [shown.media.pixels]


def video(encoded: Encoded, options: Options) -> Answer:
    """[frames, height, width, 3] uint8, [frames] seconds, and a digest of each frame's pixels:
    there is no file of each."""
    loader = VideoMediaIO(
        sampling=FrameSampling(fps=options["fps"], max_frames=options["max_frames"]),
        max_frame_pixels=options["max_frame_pixels"],
        max_total_pixels=options["max_total_pixels"],
        max_bytes=options["max_bytes"],
    )
    shown = loaded(loader, encoded).media
    frames = [np.ascontiguousarray(pixels) for pixels in shown.frames]
    names = [digest(pixels) for pixels in frames]
    return {"names": names}, [np.array(shown.times_s, np.float64), *frames]


def embeddings(encoded: Encoded, options: Options) -> Answer:
    """[tokens, width] float32."""
    return {}, [loaded(EmbeddingsMediaIO(max_bytes=options["max_bytes"]), encoded).media]


def digest(pixels: NDArray[np.uint8]) -> str:
    """Of the shape and the pixels, in hexadecimal."""
    shape = np.asarray(pixels.shape, dtype="<u4").tobytes()
    found = hashlib.blake2b(shape, digest_size=DIGEST_BYTES)
    found.update(np.ascontiguousarray(pixels).data)
    return found.hexdigest()


def loaded(loader: MediaIO[T], encoded: Encoded) -> MediaWithBytes[T]:
    """Raises MediaError."""
    if encoded.media_type is None:
        return loader.load_bytes(encoded.data)
    return loader.load_base64(encoded.media_type, encoded.data.decode())
