"""What every kind of media shares: the error type, and a decoded object with its original bytes."""

from __future__ import annotations

import base64
import hashlib
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Generic, TypeVar

__all__ = ["FetchError", "MediaError", "MediaIO", "MediaWithBytes", "check_bytes", "from_base64"]

T = TypeVar("T")

DIGEST_BYTES = 16
# Of what is spelt for URLs, and of lines. A space is none: it may have been a plus.
_STANDARD = str.maketrans("-_", "+/", "\r\n")


class MediaError(Exception):
    """A file or message that is not the media we expected. It says what was expected and what came.

    `reason` is one of "empty", "not_audio", "not_image", "not_video", "no_audio_track",
    "no_video_track", "not_embeddings", "not_finite", "truncated", "unsupported", "too_long",
    "too_short", "too_large", "bad_base64", "too_much_memory", "too_much_time", or one of
    `FetchError`; `detail` is for people.
    """

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail

    def __str__(self) -> str:
        return self.detail


class FetchError(MediaError):
    """A URL that is not allowed, or whose bytes did not arrive.

    `reason` is one of "bad_url", "refused", "too_many_redirects", "too_large", "truncated",
    "unsupported", "bad_status" (the URL is at fault), and "timeout", "unreachable", "unavailable",
    "busy" (the same URL may work later).
    """

    @property
    def retryable(self) -> bool:
        return self.reason in ("timeout", "unreachable", "unavailable", "busy")


@dataclass(frozen=True, eq=False)
class MediaWithBytes(Generic[T]):
    """A decoded object and the bytes it came from.

    Equality and hash are those of the bytes, so that caches know the same upload again without
    comparing samples or pixels.
    """

    media: T
    original_bytes: bytes

    @cached_property
    def digest(self) -> bytes:
        """16 bytes of BLAKE2b over the original bytes."""
        return hashlib.blake2b(self.original_bytes, digest_size=DIGEST_BYTES).digest()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MediaWithBytes):
            return NotImplemented
        return self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)


def check_bytes(size: int, max_bytes: int | None) -> None:
    """MediaError ("too_large") if a file has more; None: it may have any number."""
    if max_bytes is not None and size > max_bytes:
        raise MediaError("too_large", f"expected at most {max_bytes} bytes; got {size}")


def from_base64(text: str) -> bytes:
    """Both alphabets of RFC 4648 will do; line breaks do not matter, and the padding, which says
    nothing, may be left out. Raises ValueError."""
    standard = text.translate(_STANDARD)
    return base64.b64decode(standard + "=" * (-len(standard) % 4), validate=True)


class MediaIO(ABC, Generic[T]):
    """How one kind of media is loaded. Everything that is wrong with the input is a MediaError."""

    max_bytes: int | None  # of a file as it is stored; None: any number

    @abstractmethod
    def load_bytes(self, data: bytes) -> MediaWithBytes[T]:
        """Decodes a whole file held in memory."""

    def load_base64(self, media_type: str, data: str) -> MediaWithBytes[T]:
        """`media_type` is what the sender calls it ("audio/wav"); the bytes decide what it is. See
        `from_base64`."""
        try:
            raw = from_base64(data)
        except ValueError as error:
            got = f"{len(data)} characters that are not base64 ({error})"
            message = f"expected {media_type or 'a file'} as base64; got {got}"
            raise MediaError("bad_base64", message) from error
        return self.load_bytes(raw)

    def load_file(self, path: Path) -> MediaWithBytes[T]:
        """Raises OSError when the file cannot be read."""
        check_bytes(path.stat().st_size, self.max_bytes)  # before it is read
        return self.load_bytes(path.read_bytes())
