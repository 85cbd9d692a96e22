"""How much audio a header declares, which neither library tells of a file that is cut off.

Who writes to a pipe cannot know it: sizes of 0, and those near a maximum, declare nothing.
"""

from __future__ import annotations

import struct
from typing import BinaryIO, Literal, NamedTuple

__all__ = ["UNKNOWN_SIZE", "missing", "wav_seconds"]

PLAIN = (1, 3, 0xFFFE)  # a WAV's tags for samples as they are
# Bytes of samples from which on a size of 32 bits is none (GStreamer writes this one, SoX
# 0x7FFFF000 in whole frames), and one of 64 bits.
UNKNOWN_SIZE, UNKNOWN_LONG = 0x7FFF0000, 1 << 62
UNKNOWN_CHUNK = 0x7EFF0000  # SoX writes 0x7F000000 in whole frames, and 8, into an AIFF
AU = b".snd"


class Form(NamedTuple):
    """A file of chunks, each a name, a size and what is in it. samples: the name of theirs. first:
    where the first one begins. name, size: the bytes that these have. counted: of itself, by a
    size. filled: up to a multiple of this."""

    samples: bytes
    first: int
    name: int
    size: int
    counted: int
    filled: int
    order: Literal["big", "little"]


FORMS = {
    b"FORM": Form(b"SSND", 12, 4, 4, 0, 2, "big"),  # AIFF
    b"caff": Form(b"data", 8, 4, 8, 0, 1, "big"),
    b"RF64": Form(b"data", 12, 4, 4, 0, 2, "little"),
    b"riff": Form(b"data", 40, 16, 8, 24, 8, "little"),  # W64
}


def missing(file: BinaryIO) -> float:
    """How many times the bytes of samples that an AIFF, AU, CAF, RF64 or W64 holds its header
    declares; 1.0 if it holds all, or declares none. Leaves the file at 0."""
    length = file.seek(0, 2)
    file.seek(0)
    head = file.read(12)
    begin, declared = length, 0
    if head.startswith(AU):
        begin, declared = struct.unpack(">II", head[4:].ljust(8, b"\0"))
        declared = declared if declared < UNKNOWN_SIZE else 0
    elif head[:4] in FORMS:
        begin, declared = sample_bytes(file, FORMS[head[:4]], length)
    file.seek(0)
    there = length - begin
    return declared / there if 0 < there < declared else 1.0


def sample_bytes(file: BinaryIO, form: Form, length: int) -> tuple[int, int]:
    """Where they begin, and how many are declared. length: of the file."""
    at, long = form.first, 0
    while at < length:
        file.seek(at)
        name, size = file.read(form.name), int.from_bytes(file.read(form.size), form.order)
        at += form.name + form.size
        size -= form.counted
        if name == b"ds64":  # the sizes of an RF64 that have no room where they belong
            long = int.from_bytes(file.read(16)[8:], "little")
        elif name.startswith(form.samples):
            size = long if form.size == 4 and size >= UNKNOWN_CHUNK else size
            return at, size if size < UNKNOWN_LONG else 0
        at += max(0, size) + -size % form.filled
    return length, 0


def wav_seconds(file: BinaryIO) -> float | None:
    """The length that a WAV header declares; None if it declares none or this is no WAV.

    libsndfile cuts the declared size down to what is there without a word. Leaves the file at 0.
    """
    seconds: float | None = None
    bytes_per_second = 0
    if file.read(4) == b"RIFF" and file.read(8)[4:] == b"WAVE":
        while len(header := file.read(8)) == 8:
            size = struct.unpack("<I", header[4:])[0]
            if header[:4] == b"data":
                if bytes_per_second and 0 < size < UNKNOWN_SIZE:
                    seconds = size / bytes_per_second
                break
            body = file.read(16) if header[:4] == b"fmt " else b""
            if len(body) == 16:
                tag, channels, rate, bytes_per_second, _, bits = struct.unpack("<HHIIHH", body)
                if tag in PLAIN:  # some writers get the sum wrong, which nobody needs
                    bytes_per_second = rate * channels * ((bits + 7) // 8)
            file.seek(size + size % 2 - len(body), 1)
    file.seek(0)
    return seconds
