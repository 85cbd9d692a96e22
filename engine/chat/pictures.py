"""The pictures of sessions, and how a model sees them: sizes within a budget, normalised pixels.

A session holds its pictures by name; what a model's encoder takes of one is prepared once for every
size and kept in a cache of bounded size, for all sessions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from lookhear.engine.chat.pixels import (
    PixelRules,
    Size,
    share_tokens,
    share_video_tokens,
    temporal_slices,
)
from lookhear.engine.core.request import RequestError
from lookhear.engine.messages import ImagePart, VideoPart
from lookhear.engine.paged.request import Medium
from lookhear.engine.tokenizers.qwen import QwenTokenizer

T = TypeVar("T")

Place = tuple[int, int]  # message, part in it
Label = tuple[int, ...]  # tokens in front of a frame, which say when it was
PREPARED_BYTES = 256 * 2**20


class PartError(RequestError):
    """A part of a message is to blame. place: message, part in it."""

    def __init__(self, code: str, message: str, place: Place) -> None:
        super().__init__(code, message)
        self.place = place


@dataclass(frozen=True, slots=True)
class PartMedia:
    """What stands for one part: media, each with the tokens in front of it. kind: "image", "video"
    or "audio". is_framed: each of the media stands between a beginning and an end of its own, not
    all of them side by side. tail: tokens behind the last one."""

    media: list[tuple[Label, Medium]]
    kind: str
    is_framed: bool = False
    tail: Label = ()

    @property
    def num_tokens(self) -> int:
        """Of all that comes in the part's place."""
        around = (2 * len(self.media) if self.is_framed else 0) + len(self.tail)
        return around + sum(len(label) + medium.num_tokens for label, medium in self.media)


class HeldPictures(ABC):
    """Pictures by name, and what was prepared of them. pad: how the placeholder of an image is
    spelled. rate: of a model to which positions say when a slice of a video was, how many of them
    are a second; None: words in front of each slice say it."""

    def __init__(self, pad: str = "<|image_pad|>", rate: int | None = None) -> None:
        self.pad = pad
        self.rate = rate
        self._held: dict[tuple[str, str], NDArray[np.uint8]] = {}  # by session and name
        self._prepared: OrderedDict[tuple[object, ...], list[Medium]] = OrderedDict()
        self._prepared_bytes = 0

    @abstractmethod
    def media_of(
        self,
        session: str,
        parts: Sequence[tuple[Place, object]],
        room: int,
        tokenizer: QwenTokenizer,
    ) -> dict[Place, PartMedia]:
        """What stands for each part. room: tokens that all of them may take. Raises `PartError`."""

    def hold(self, session: str, name: str, pixels: NDArray[np.uint8]) -> None:
        """pixels: [height, width, 3] uint8. A name that is held already is replaced."""
        self.forget(session, name)
        self._held[session, name] = pixels

    def _find(self, session: str, name: str, place: Place) -> NDArray[np.uint8]:
        """Raises `PartError`."""
        pixels = self._held.get((session, name))
        if pixels is None:
            raise PartError(
                "invalid_value", f"expected a picture that is held, got {name!r}", place
            )
        return pixels

    def _cached(self, key: tuple[object, ...], make: Callable[[], list[Medium]]) -> list[Medium]:
        found = self._prepared.get(key)
        if found is None:
            found = self._prepared[key] = make()
            self._prepared_bytes += _bytes(found)
            while self._prepared_bytes > PREPARED_BYTES and len(self._prepared) > 1:
                _, oldest = self._prepared.popitem(last=False)
                self._prepared_bytes -= _bytes(oldest)
        self._prepared.move_to_end(key)
        return found

    def forget(self, session: str, name: str | None = None) -> None:
        """A session's picture is gone, or all of them."""
        names = [held for of, held in self._held if of == session and name in (None, held)]
        for held in names:
            del self._held[session, held]
        gone = [
            key
            for key in self._prepared
            if key[0] == session
            and (name is None or key[1] == name or (isinstance(key[1], tuple) and name in key[1]))
        ]
        for key in gone:
            self._prepared_bytes -= _bytes(self._prepared.pop(key))

    def stats(self) -> Mapping[str, int]:
        """Now: pictures held by sessions, their bytes, and those of what is prepared of them."""
        return {
            "pictures": len(self._held),
            "picture_bytes": sum(pixels.nbytes for pixels in self._held.values()),
            "prepared_bytes": self._prepared_bytes,
        }


class PictureEncoder(HeldPictures):
    """make_medium: from pixels [frames, 3, height, width] to what a request holds. images, videos:
    the checkpoint's rules. live_tokens: of one frame of a video that goes on, at most. rate: see
    `HeldPictures`."""

    def __init__(
        self,
        make_medium: Callable[[NDArray[np.float32]], Medium],
        images: PixelRules,
        videos: PixelRules,
        live_tokens: int,
        rate: int | None = None,
    ) -> None:
        super().__init__(rate=rate)
        self._make_medium = make_medium
        self._images = images
        self._videos = videos
        self._live = videos.limited(live_tokens)

    def media_of(
        self,
        session: str,
        parts: Sequence[tuple[Place, object]],
        room: int,
        tokenizer: QwenTokenizer,
    ) -> dict[Place, PartMedia]:
        """What stands for each part. room: tokens that all of them may take.

        Videos, and images of detail "high" or "low", have their own size; images of detail "auto"
        share what is left, and are made smaller if they must be. Raises `PartError`.
        """
        found: dict[Place, PartMedia] = {}
        flexible: list[tuple[Place, ImagePart]] = []
        for place, part in parts:
            if isinstance(part, ImagePart) and part.detail == "auto":
                flexible.append((place, part))
                continue
            if isinstance(part, VideoPart):
                found[place] = self._video(session, place, part, room, tokenizer)
            elif isinstance(part, ImagePart):
                found[place] = self._image(session, place, part)
            room -= found[place].num_tokens
            if room < 0:
                raise PartError(
                    "context_length_exceeded",
                    f"expected pictures that fit the model's context, got {-room} tokens too many",
                    place,
                )
        if flexible:
            pictures = [self._find(session, part.picture, place) for place, part in flexible]
            for (place, part), size in zip(
                flexible, self._shared(flexible, pictures, room), strict=True
            ):
                medium = self._prepare(session, part.picture, size)
                found[place] = PartMedia([((), medium)], "image")
        return found

    def _shared(
        self,
        flexible: Sequence[tuple[Place, ImagePart]],
        pictures: Sequence[NDArray[np.uint8]],
        room: int,
    ) -> list[Size]:
        for (place, _), pixels in zip(flexible, pictures, strict=True):
            blamed(lambda p=pixels: self._images.image_size(_size(p)), place)  # type: ignore[misc]
        last = flexible[-1][0]
        sizes = [_size(pixels) for pixels in pictures]
        return blamed(lambda: share_tokens(self._images, sizes, max(0, room)), last)

    def _image(self, session: str, place: Place, part: ImagePart) -> PartMedia:
        pixels = self._find(session, part.picture, place)
        rules = blamed(lambda: self._images.for_detail(part.detail), place)
        size = blamed(lambda: rules.image_size(_size(pixels)), place)
        return PartMedia([((), self._prepare(session, part.picture, size))], "image")

    def _prepare(self, session: str, name: str, size: Size, *, live: bool = False) -> Medium:
        rules = self._live if live else self._images
        key = (session, name, size, live)

        def make() -> list[Medium]:
            pixels = self._find(session, name, (0, 0))
            return [self._make_medium(rules.prepare(pixels[None], size))]

        return self._cached(key, make)[0]

    def _video(
        self, session: str, place: Place, part: VideoPart, room: int, tokenizer: QwenTokenizer
    ) -> PartMedia:
        if not part.pictures or len(part.pictures) != len(part.seconds):
            raise PartError("invalid_value", "expected a video of one frame at least", place)

        def label(seconds: float) -> Label:
            words = f"<{seconds:.1f} seconds>" if self.rate is None else ""
            return tuple(tokenizer.encode(words))

        frames = [self._find(session, name, place) for name in part.pictures]
        if part.live:
            seen = []
            for name, pixels in zip(part.pictures, frames, strict=True):
                size = blamed(lambda p=pixels: self._live.image_size(_size(p)), place)  # type: ignore[misc]
                seen.append(self._prepare(session, name, size, live=True))
            return self._placed(seen, part.seconds, list(map(label, part.seconds)))
        if len({pixels.shape for pixels in frames}) > 1:
            raise PartError("invalid_value", "expected frames of one size", place)
        # Each slice also costs its label and two tokens around it.
        slices = -(-len(frames) // self._videos.frames)
        framed = 0 if self.rate else 2 + max(len(label(s)) for s in part.seconds)
        budget = room - slices * framed
        size = blamed(
            lambda: share_video_tokens(self._videos, _size(frames[0]), len(frames), max(0, budget)),
            place,
        )
        firsts = range(0, len(frames), self._videos.frames)
        lasts = [min(first + self._videos.frames, len(frames)) - 1 for first in firsts]
        middles = [
            (part.seconds[a] + part.seconds[b]) / 2 for a, b in zip(firsts, lasts, strict=True)
        ]

        def make() -> list[Medium]:
            pixels = self._videos.prepare(np.stack(frames), size)
            cut = temporal_slices(pixels, part.seconds, self._videos.frames)
            return [self._make_medium(slice_) for _, slice_ in cut]

        seen = self._cached((session, tuple(part.pictures), size), make)
        begins = [part.seconds[first] for first in firsts]
        return self._placed(seen, begins, list(map(label, middles)))

    def _placed(
        self, media: Sequence[Medium], seconds: Sequence[float], labels: Sequence[Label]
    ) -> PartMedia:
        """Slices of a video, each with what says when it was. seconds: when each began."""
        if self.rate is None:
            return PartMedia(list(zip(labels, media, strict=True)), "video", is_framed=True)
        times: list[int] = []
        for second in seconds:
            least = times[-1] + 1 if times else 0
            times.append(max(least, round((second - seconds[0]) * self.rate)))
        placed = [medium._replace(time=time) for medium, time in zip(media, times, strict=True)]
        return PartMedia([((), medium) for medium in placed], "video")


def _bytes(media: Sequence[Medium]) -> int:
    return sum(medium.features.nbytes for medium in media)


def _size(pixels: NDArray[np.uint8]) -> Size:
    return pixels.shape[0], pixels.shape[1]


def blamed(work: Callable[[], T], place: Place) -> T:
    """Do it; a `RequestError` is the part's."""
    try:
        return work()
    except RequestError as error:
        raise PartError(error.code, str(error), place) from None
