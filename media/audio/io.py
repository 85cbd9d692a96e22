"""The audio side of `MediaIO`."""

from __future__ import annotations

from pathlib import Path

from lookhear.media.audio.decode import Audio, check_bytes, decode_audio
from lookhear.media.base import MediaIO, MediaWithBytes

__all__ = ["AudioMediaIO"]


class AudioMediaIO(MediaIO[Audio]):
    """Audio files under the given limits, at `target_rate`."""

    def __init__(
        self,
        *,
        target_rate: int = 16000,
        max_seconds: float | None = None,
        max_bytes: int | None = None,
    ) -> None:
        self.target_rate = target_rate
        self.max_seconds = max_seconds
        self.max_bytes = max_bytes

    def load_bytes(self, data: bytes) -> MediaWithBytes[Audio]:
        audio = decode_audio(
            data,
            target_rate=self.target_rate,
            max_seconds=self.max_seconds,
            max_bytes=self.max_bytes,
        )
        return MediaWithBytes(audio, data)

    def load_file(self, path: Path) -> MediaWithBytes[Audio]:
        check_bytes(path.stat().st_size, self.max_bytes)  # before it is read
        return super().load_file(path)
