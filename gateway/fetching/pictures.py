"""What messages point at - images, videos, recordings - fetched and decoded.

Decoding is done in processes of its own. Whatever is wrong with a URL or with what is behind it is
an `ApiError` (400) that begins with the path of its place in the request.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import Literal, Protocol, TypeVar

from lookhear.gateway.config import GatewayConfig
from lookhear.gateway.decoding import results
from lookhear.gateway.decoding.decoders import Read
from lookhear.gateway.decoding.jobs import Encoded, Options
from lookhear.gateway.decoding.results import Clip, Picture, Recording, Rows
from lookhear.gateway.fetching.fetcher import Fetcher
from lookhear.gateway.http.errors import ApiError
from lookhear.gateway.slots import Claim
from lookhear.media.audio.pcm import AudioFormat
from lookhear.media.base import FetchError, MediaError, check_bytes
from lookhear.media.fetching.rules import FetchPolicy
from lookhear.media.signatures import describe
from lookhear.media.voice.stretches import FILE_CONFIG
from lookhear.media.voice.vad import VadConfig

T = TypeVar("T")

# Times as long as other media a recording to be transcribed may take: an hour is not fetched in the
# time of a picture.
RECORDING_PATIENCE = 12

Kind = Literal["image", "video", "audio", "prompt_embeds"]


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


@dataclass(frozen=True, slots=True)
class AudioFile:
    """As it came, under the path of its place in the request. max_bytes: that it may have."""

    encoded: Encoded
    path: str
    max_bytes: int | None

    @property
    def is_bare(self) -> bool:
        """Whether it is samples; what is a file says more about itself than a client does."""
        encoded = self.encoded
        return encoded.media_type is None and describe(encoded.data[:512])[1] != "recording"

    def as_samples(self, format: AudioFormat) -> AudioFile:
        """Bare samples become a file."""
        return replace(self, encoded=Encoded(format.as_wav(self.encoded.data)))


class Decode(Protocol):
    """`Decoders.run`."""

    async def __call__(
        self, job: str, encoded: Encoded, options: Options, claim: Claim, read: Read[T]
    ) -> T:
        """Wait for what `read` makes of it. Raises MediaError and ApiError (503)."""


class Pictures:
    """Loads media under the gateway's limits. path: of the URL's place in the request, like
    "messages[0].content[1].image_url.url"; claim: for whom. Every method raises ApiError only: 400,
    or 503 for what may work later."""

    def __init__(self, config: GatewayConfig, fetcher: Fetcher, decode: Decode) -> None:
        self._config = config
        self._fetcher = fetcher
        self._decode = decode
        self.policy = FetchPolicy(
            max_bytes=config.max_media_bytes,
            timeout_s=config.fetch_timeout_seconds,
            allow_networks=config.allow_networks,
            local_folder=config.media_folder,
        )
        self.recordings = replace(
            self.policy,
            max_bytes=config.max_upload_bytes,
            timeout_s=RECORDING_PATIENCE * config.fetch_timeout_seconds,
        )

    def budget(self) -> PictureBudget:
        """A fresh one, for one request."""
        return PictureBudget(self._config.max_pictures, self._config.max_request_pixels)

    async def image(self, url: str, path: str, claim: Claim) -> Picture:
        """An image behind a data:, http(s): or, if there is a folder for it, file: URL."""
        config = self._config
        options = {"max_pixels": config.max_image_pixels, "max_bytes": config.max_media_bytes}
        with _told(path, "image"):
            encoded = await self._fetcher.load(url, self.policy, claim)
            return await self._decode("image", encoded, options, claim, results.picture)

    async def video(self, url: str, path: str, claim: Claim) -> Clip:
        """Frames of a video, sampled at the configured rate."""
        config = self._config
        options = {
            "fps": config.video_fps,
            "max_frames": config.max_video_frames,
            "max_frame_pixels": config.max_image_pixels,
            "max_total_pixels": config.max_request_pixels // 2,
            "max_bytes": config.max_media_bytes,
        }
        with _told(path, "video"):
            encoded = await self._fetcher.load(url, self.policy, claim)
            return await self._decode("video", encoded, options, claim, results.clip)

    async def audio(self, url: str, path: str, claim: Claim) -> Recording:
        """A recording within a question, and where somebody speaks in it."""
        file = await self._fetched(path, url, self.policy, claim)
        return await self.recording(file, claim, FILE_CONFIG)

    async def audio_base64(self, data: str, path: str, claim: Claim) -> Recording:
        """A whole audio file in base64."""
        encoded = Encoded(data.encode("utf-8", "replace"), "the data")
        file = AudioFile(encoded, path, self._config.max_media_bytes)
        return await self.recording(file, claim, FILE_CONFIG)

    async def embeddings(self, data: str, path: str, claim: Claim) -> Rows:
        """Embeddings in base64: [tokens, width] float32, all finite."""
        most = self._config.max_media_bytes
        with _told(path, "prompt_embeds"):
            check_bytes(len(data) * 3 // 4, most + 2)  # padding counts here as if it were data
            encoded = Encoded(data.encode("utf-8", "replace"), "the data")
            options = {"max_bytes": most}
            return await self._decode("embeddings", encoded, options, claim, results.embeddings)

    async def audio_file(self, source: bytes | tuple[str, str], claim: Claim) -> AudioFile:
        """To be transcribed, so it may be long. source: the uploaded field `file`, or (path,
        URL)."""
        if isinstance(source, bytes):
            return AudioFile(Encoded(source), "file", None)
        return await self._fetched(*source, self.recordings, claim)

    async def _fetched(self, path: str, url: str, policy: FetchPolicy, claim: Claim) -> AudioFile:
        with _told(path, "audio"):
            encoded = await self._fetcher.load(url, policy, claim)
        return AudioFile(encoded, path, policy.max_bytes)

    async def recording(
        self,
        file: AudioFile,
        claim: Claim,
        voices: VadConfig | None,
        first_seconds: float | None = None,
        channel: int | None = None,
    ) -> Recording:
        """Decoded, as far as it is wanted. voices: see `audio`. channel: None: all of them."""
        options = {
            "max_seconds": self._config.max_turn_seconds,
            "max_bytes": file.max_bytes,
            "first_seconds": first_seconds,
            "channel": channel,
            "voices": None if voices is None else asdict(voices),
        }
        with _told(file.path, "audio"):
            return await self._decode("recording", file.encoded, options, claim, results.recording)


@contextmanager
def _told(path: str, kind: Kind) -> Iterator[None]:
    """A MediaError becomes an ApiError about the place it came from."""
    try:
        yield
    except FetchError as error:
        if error.reason == "busy":
            raise ApiError(503, f"{path}: {error}", code="fetch_busy", param=path) from None
        raise ApiError(400, f"{path}: {error}", code=f"invalid_{kind}_url", param=path) from None
    except MediaError as error:
        raise ApiError(400, f"{path}: {error}", code=f"invalid_{kind}", param=path) from None
