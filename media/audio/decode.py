"""Audio files -> mono float32 samples at one rate, whole or piece by piece."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from lookhear.media.audio.containers import AudioSource, open_audio
from lookhear.media.audio.resample import StreamResampler
from lookhear.media.base import MediaError, MediaIO, MediaWithBytes, check_bytes

__all__ = ["Audio", "AudioMediaIO", "MediaError", "decode_audio", "iter_audio"]

Samples = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Audio:
    """samples: [n] float32 mono at `rate` Hz; `codec` and `container` name how it was stored.
    is_whole: whether that is all of it. channels: that the file has."""

    samples: Samples
    rate: int
    codec: str
    container: str
    is_whole: bool = True
    channels: int = 1

    @property
    def duration_s(self) -> float:
        return len(self.samples) / self.rate


@dataclass(frozen=True, eq=False, kw_only=True)
class AudioMediaIO(MediaIO[Audio]):
    """Audio files under the given limits, at `target_rate`. channel: see `open_audio`."""

    target_rate: int = 16000
    max_seconds: float | None = None
    max_bytes: int | None = None
    first_seconds: float | None = None
    channel: int | None = None

    def load_bytes(self, data: bytes) -> MediaWithBytes[Audio]:
        audio = decode_audio(
            data,
            target_rate=self.target_rate,
            max_seconds=self.max_seconds,
            max_bytes=self.max_bytes,
            first_seconds=self.first_seconds,
            channel=self.channel,
        )
        return MediaWithBytes(audio, data)


def decode_audio(
    source: bytes | Path | BinaryIO,
    *,
    target_rate: int = 16000,
    max_seconds: float | None = None,
    max_bytes: int | None = None,
    first_seconds: float | None = None,
    channel: int | None = None,
) -> Audio:
    """Decodes a whole file: mono by mean of the channels, resampled to `target_rate`.

    `source` is the file's bytes, its path, or a binary file (read to its end). `containers.py` says
    which files are taken and when one counts as truncated. first_seconds: no more than these, and
    whatever follows them is not looked at; None: all.

    Raises MediaError for everything wrong with the content and OSError if a path cannot be read.
    """
    if isinstance(source, Path):
        check_bytes(source.stat().st_size, max_bytes)
        with source.open("rb") as file:
            return decode_file(file, target_rate, max_seconds, first_seconds, channel)
    if not isinstance(source, bytes):
        source = source.read(-1 if max_bytes is None else max_bytes + 1)
    check_bytes(len(source), max_bytes)
    held = io.BytesIO(source)
    return decode_file(held, target_rate, max_seconds, first_seconds, channel)


def decode_file(
    file: BinaryIO,
    target_rate: int,
    max_seconds: float | None,
    first_seconds: float | None = None,
    channel: int | None = None,
) -> Audio:
    most = None if first_seconds is None else round(first_seconds * target_rate)
    parts: list[Samples] = []
    total = 0
    with open_audio(file, channel) as source:
        told = (target_rate, source.codec, source.container)
        for part in resampled(source, target_rate):
            parts.append(part)
            total += len(part)
            # Checked while decoding: a small file can hold days of silence.
            if max_seconds is not None and total > max_seconds * target_rate:
                raise MediaError(
                    "too_long", f"expected at most {max_seconds:g} s of audio; got a longer file"
                )
            if most is not None and total > most:
                first = np.concatenate(parts)[:most]
                return Audio(first, *told, is_whole=False, channels=source.channels)
        return Audio(np.concatenate(parts), *told, channels=source.channels)


def iter_audio(path: Path, chunk_s: float, target_rate: int = 16000) -> Iterator[Samples]:
    """A file of any length in bounded memory: chunks of `chunk_s` seconds, the last one shorter.

    Joined they equal `decode_audio(path).samples`. Raises as it does; a truncated file's error
    comes after the samples before it.
    """
    size = round(chunk_s * target_rate)
    if size < 1:
        raise ValueError(f"chunk_s: expected at least one sample; got {chunk_s!r} s")
    pending = np.zeros(0, dtype=np.float32)
    with path.open("rb") as file, open_audio(file) as source:
        for part in resampled(source, target_rate):
            pending = np.concatenate([pending, part])
            whole = len(pending) - len(pending) % size
            for start in range(0, whole, size):
                yield pending[start : start + size].copy()
            pending = pending[whole:]
    if len(pending):
        yield pending


def resampled(source: AudioSource, target_rate: int) -> Iterator[Samples]:
    """The source's blocks at `target_rate`; a file may change its own rate on the way."""
    resampler: StreamResampler | None = None
    for rate, block in source.blocks:
        if resampler is None or resampler.source_rate != rate:
            if resampler is not None:
                yield resampler.flush()
            resampler = StreamResampler(rate, target_rate, low_delay=False)
        yield resampler.feed(block)
    if resampler is not None:
        yield resampler.flush()
