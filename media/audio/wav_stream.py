"""The head of a WAV that is still being written, and what follows it.

FFmpeg looks at the first 64 KiB of plain samples in a WAV, for a surround track that is coded in
them: two seconds of speech, and four of a telephone's. So such a head is read here, and what is
behind it is handed to FFmpeg as the samples that they are.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from lookhear.media.audio.containers import MOST_CHANNELS, RATES
from lookhear.media.audio.declared import UNKNOWN_SIZE
from lookhear.media.ffmpeg import Readable

__all__ = ["Limited", "PlainSamples", "Replayed", "wav_head"]

INTEGERS, EXTENSIBLE = 1, 0xFFFE  # tags of plain samples; the second has the kind behind it
KIND = 24  # where, in bytes of its chunk
FORMATS = {8: "u8", 16: "s16le", 24: "s24le", 32: "s32le"}  # FFmpeg's, by bits
MOST_SKIPPED = 1 << 20  # bytes of titles and the like in front of the samples


class PlainSamples(NamedTuple):
    """format: FFmpeg's name for what they are. size: in bytes; None: to the end."""

    format: str
    rate: int
    channels: int
    size: int | None

    @property
    def options(self) -> dict[str, str]:
        """FFmpeg's, to read them without a head."""
        layout = f"{self.channels}C"
        return {
            "sample_rate": str(self.rate), "ch_layout": layout, "format_whitelist": self.format
        }  # fmt: skip


class Replayed:
    """A file of which some was read before."""

    def __init__(self, before: bytes, file: Readable) -> None:
        self._before, self._file = before, file

    def read(self, size: int, /) -> bytes:
        """See `Readable`."""
        if not self._before:
            return self._file.read(size)
        part, self._before = self._before[:size], self._before[size:]
        return part


class Limited:
    """The next bytes of a file, as many as are known to follow. left: None: all."""

    def __init__(self, file: Readable, left: int | None) -> None:
        self._file, self._left = file, left

    def read(self, size: int, /) -> bytes:
        """See `Readable`."""
        if self._left is None:
            return self._file.read(size)
        part = self._file.read(min(size, self._left)) if self._left else b""
        self._left -= len(part)
        return part


def wav_head(file: Readable) -> tuple[PlainSamples | None, bytes]:
    """Reads up to the first sample of a WAV of plain ones. None: it is another kind of recording.
    Also returns what was read, for who takes it then."""
    head, fmt = Head(file), b""
    if head.take(4) != b"RIFF" or head.take(8)[4:] != b"WAVE":
        return None, head.read
    while len(chunk := head.take(8)) == 8:
        size = int.from_bytes(chunk[4:], "little")
        if chunk[:4] == b"data":
            return plain(fmt, size if 0 < size < UNKNOWN_SIZE else None), head.read
        if size > MOST_SKIPPED - len(head.read):
            break
        body = head.take(size + size % 2)
        if chunk[:4] == b"fmt ":
            fmt = body
    return None, head.read


class Head:
    """read: all that was."""

    def __init__(self, file: Readable) -> None:
        self._file, self.read = file, b""

    def take(self, size: int) -> bytes:
        """So many bytes; fewer at the end."""
        begin = len(self.read)
        while (left := begin + size - len(self.read)) and (part := self._file.read(left)):
            self.read += part
        return self.read[begin:]


def plain(fmt: bytes, size: int | None) -> PlainSamples | None:
    """fmt: the chunk of that name."""
    if len(fmt) < 16:
        return None
    tag, channels, rate, _, frame, bits = struct.unpack("<HHIIHH", fmt[:16])
    if tag == EXTENSIBLE:
        tag = int.from_bytes(fmt[KIND : KIND + 2], "little")
    is_plain = tag == INTEGERS and bits in FORMATS and frame == channels * bits // 8
    is_usual = 0 < channels <= MOST_CHANNELS and RATES[0] <= rate <= RATES[1]
    return PlainSamples(FORMATS[bits], rate, channels, size) if is_plain and is_usual else None
