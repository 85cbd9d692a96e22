"""Where one Ogg file begins behind another, as recorders of stations write them in a row.

FFmpeg goes on with one that is coded as the one before, and takes any other for the end.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import BinaryIO

__all__ = ["OGG", "Cutter", "links", "parts"]

OGG = b"OggS"
# Flags, where it ends, its segments. Only looked at: a head that is cut off takes none of the next.
PAGE = re.compile(rb"OggS\0(?=([\0-\7])(.{8}).{12}(.))", re.DOTALL)
FLAGS = re.compile(rb"OggS\0(?=([\0-\7]))", re.DOTALL)
BEGUN = re.compile(rb"(?:O(?:g(?:g(?:S\0?)?)?)?)?\Z")  # what may become that
HEAD = 27  # bytes of a page before its segments
FIRST_PAGE = 2  # among the flags; a file of several tracks has as many, one behind the other
OPUS_PACKET = 5760  # the most samples that a packet can have; it is one segment or more


def links(file: BinaryIO, head: bytes) -> tuple[list[int], bool]:
    """Where files begin, and whether any is Opus with pauses, as recorders of calls write it:
    libsndfile hears the first file only, and leaves pauses out. Leaves the file at 0."""
    starts: list[int] = []
    is_opus, has_pauses, is_first = b"OpusHead" in head, False, False
    at, end, rest = 0, 0, b""
    while block := file.read(1 << 20):
        held = rest + block
        for page in PAGE.finditer(held):
            was_first, is_first = is_first, bool(page[1][0] & FIRST_PAGE)
            if is_first and not was_first:
                starts.append(at + page.start())
            position = int.from_bytes(page[2], "little", signed=True)  # -1: no packet ends in it
            has_pauses |= is_opus and 0 < end < position - page[3][0] * OPUS_PACKET
            end = max(end, position)
        rest = held[1 - HEAD :]
        at += len(held) - len(rest)
    file.seek(0)
    return starts, has_pauses


def parts(file: BinaryIO, starts: list[int]) -> Iterator[BinaryIO]:
    """Each of the files that begin there."""
    for begin, end in pairwise([*starts, file.seek(0, 2)]):
        file.seek(begin)
        yield io.BytesIO(file.read(end - begin))


class Cutter:
    """Cuts a stream, in whatever pieces it comes, where one file begins behind another."""

    def __init__(self) -> None:
        self._held = b""  # up to five bytes with which a page may begin
        self._is_first = False  # the last page was one of those that a file begins with

    def feed(self, data: bytes) -> list[bytes]:
        """-> what goes on, which may be nothing, and what each file begins with that follows."""
        data = self._held + data
        begun = BEGUN.search(data, max(0, len(data) - 5))
        assert begun is not None, "an empty end is one"
        data, self._held = data[: begun.start()], begun.group()
        found, start = [], 0
        for page in FLAGS.finditer(data):
            was_first, self._is_first = self._is_first, bool(page[1][0] & FIRST_PAGE)
            if self._is_first and not was_first:
                found.append(data[start : page.start()])
                start = page.start()
        return [*found, data[start:]]

    def end(self) -> bytes:
        """Nothing follows of this stream -> what was held back."""
        held, self._held = self._held, b""
        return held
