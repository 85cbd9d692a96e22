"""Anything that holds or makes sound -> mono 16-bit PCM at 24 kHz, in pieces, without blocking."""

from __future__ import annotations

import asyncio
import io
import os
import time
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from pathlib import Path

import numpy as np
import soundfile
from numpy.typing import NDArray

from lookhear.errors import SourceError
from lookhear.sources.files import media_type, read_medium, require_file
from lookhear.sources.microphone import Microphone
from lookhear.sources.own_thread import in_own_thread
from lookhear.sources.pcm import RATE, SAMPLE_BYTES, PcmConverter, mixed

BLOCK_SECONDS = 0.5  # of a file, read and resampled at once
HEAD = 512  # bytes of a file that tell what it is
PLAYABLE = ("audio/wav", "audio/mpeg", "audio/flac", "audio/ogg")
_END = object()  # what `next` in a thread answers at the end: StopIteration cannot cross a future


Source = (
    str
    | os.PathLike[str]
    | bytes
    | NDArray[np.float32]
    | Iterable[bytes]
    | AsyncIterable[bytes]
    | Microphone
)


def _file_pieces(file: str | os.PathLike[str] | bytes) -> Iterator[bytes]:
    """Decode a file block by block. Blocking: for a worker thread."""
    try:
        with _opened(file) as sound:
            # Else it seeks behind every read, which damages an MP3: frames borrow bits from others.
            sound.seekable = lambda: False
            wire = PcmConverter(sound.samplerate)
            frames = max(1, int(sound.samplerate * BLOCK_SECONDS))
            while len(block := sound.read(frames, dtype="float32", always_2d=True)):
                yield wire.samples(mixed(block))
            yield wire.samples(np.zeros(0, np.float32), last=True)
    except soundfile.LibsndfileError as error:
        raise SourceError(f"cannot read {_name(file)}: {error.error_string}") from error


def require_playable(file: str | os.PathLike[str]) -> None:
    """SourceError unless it can be read piece by piece; of a pipe only the reading tells."""
    if Path(file).is_file():
        _opened(file).close()


def _opened(file: str | os.PathLike[str] | bytes) -> soundfile.SoundFile:
    name = _name(file)
    if not isinstance(file, bytes):
        require_file(file)
        if not Path(file).is_file():  # a pipe, in which one cannot seek
            file = read_medium(file)
    try:
        if isinstance(file, bytes):
            return soundfile.SoundFile(io.BytesIO(file))
        # soundfile wants names that are text, or bytes; Windows has none of the latter.
        return soundfile.SoundFile(file if os.name == "nt" else os.fsencode(file))
    except soundfile.LibsndfileError as error:
        kind = _kind(file)
        raise SourceError(
            f"cannot read {name}: expected wav, flac, mp3 or ogg (vorbis, opus), got {kind}"
        ) from error


def _name(file: str | os.PathLike[str] | bytes) -> str:
    return "the given bytes" if isinstance(file, bytes) else os.fspath(file)


def _kind(file: str | os.PathLike[str] | bytes) -> str:
    """What is in a file that cannot be decoded, by how it begins."""
    if isinstance(file, bytes):
        head = file[:HEAD]
    else:
        with open(file, "rb") as opened:
            head = opened.read(HEAD)
    if not head:
        return "0 bytes"
    kind = media_type(head)
    if kind == "application/octet-stream":
        return "something else"
    return f"{kind} that cannot be decoded here" if kind in PLAYABLE else kind


def _array_pieces(samples: NDArray[np.float32], rate: int) -> Iterator[bytes]:
    if samples.ndim != 1 or not np.issubdtype(samples.dtype, np.floating):
        raise SourceError(
            f"samples: expected a one-dimensional float array in [-1, 1], "
            f"got {samples.dtype} of shape {samples.shape}"
        )
    wire = PcmConverter(rate)
    block = max(1, int(rate * BLOCK_SECONDS))
    for first in range(0, len(samples), block):
        yield wire.samples(samples[first : first + block].astype(np.float32))
    yield wire.samples(np.zeros(0, np.float32), last=True)


async def _in_thread(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Pull a blocking iterator from other threads, one piece at a time."""
    while (piece := await in_own_thread(lambda: next(pieces, _END))) is not _END:
        yield _checked(piece)


async def read_source(source: Source, rate: int | None = None) -> AsyncIterator[bytes]:
    """The source as 16-bit mono PCM at 24 kHz, in whole samples.

    source: path of an audio file, bytes of one, float samples at `rate`, an iterator or async
    iterator of 16-bit little-endian PCM chunks at `rate` (24 kHz if None) split anywhere, or a
    `Microphone`. SourceError if it cannot be read.
    """
    if isinstance(source, np.ndarray):
        if rate is None:
            raise SourceError("samples need a rate: transcribe(samples, rate=16000)")
        pieces: AsyncIterable[bytes] = _in_thread(_array_pieces(source, rate))
    elif isinstance(source, (str, bytes, os.PathLike)):
        pieces = _in_thread(_file_pieces(source))
    else:
        pieces = _chunks(source, RATE if rate is None else rate)
    async for piece in pieces:
        if piece:
            yield piece


async def _chunks(
    source: Iterable[bytes] | AsyncIterable[bytes] | Microphone, rate: int
) -> AsyncIterator[bytes]:
    wire = PcmConverter(rate)
    if isinstance(source, AsyncIterable):
        async for chunk in source:
            yield wire.pcm(_checked(chunk))
    elif isinstance(source, Iterable):
        async for chunk in _in_thread(iter(source)):
            yield wire.pcm(_checked(chunk))
    else:
        raise SourceError(f"source: expected a path, bytes, samples or chunks, got {type(source)}")
    yield wire.pcm(b"", last=True)


def _checked(chunk: object) -> bytes:
    if not isinstance(chunk, (bytes, bytearray, memoryview)):
        raise SourceError(f"chunk: expected bytes of 16-bit PCM, got {type(chunk).__name__}")
    return bytes(chunk)


async def at_pace(
    pieces: AsyncIterable[bytes], pace: float, step: float = 0.02
) -> AsyncIterator[bytes]:
    """The same PCM in pieces of `step` seconds, each released when a microphone would have it.

    Sample n is given out no earlier than n / 24000 / pace seconds after the first pull. The clock
    is absolute: a late piece does not make the following ones late.
    """
    if pace <= 0:
        raise ValueError(f"pace: expected more than 0, got {pace}")
    size = int(step * RATE) * SAMPLE_BYTES
    held = bytearray()
    started = time.monotonic()
    released = 0

    async def release(piece: bytes) -> bytes:
        nonlocal released
        released += len(piece) // SAMPLE_BYTES
        await asyncio.sleep(max(0.0, started + released / (RATE * pace) - time.monotonic()))
        return piece

    async for piece in pieces:
        held += piece
        while len(held) >= size:
            yield await release(bytes(held[:size]))
            del held[:size]
    if held:
        yield await release(bytes(held))
