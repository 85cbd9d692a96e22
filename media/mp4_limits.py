"""MP4 and MOV headers that would make FFmpeg build tables out of all proportion to the file.

FFmpeg expands a header's counts into one table entry per sample before it returns from opening a
file: three kilobytes can declare 100 million samples (7 GB), and a few hundred edits of a track
keep it busy for minutes. Nothing can interrupt it there, so the counts are read before.

FFmpeg takes boxes in places where they do not belong. So the counts are not looked up where the
format has them (ISO 14496-12), but wherever their names occur outside the media data.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO

from lookhear.media.base import MediaError

__all__ = ["check_mp4", "is_mp4"]

FIRST_BOXES = (b"ftyp", b"moov", b"mdat", b"wide", b"free", b"skip", b"pnot")
MAX_HEADERS = 1 << 26  # bytes outside the media data
MAX_SAMPLES = 1 << 21  # of all tracks: 9 hours of 60 frames per second, 150 MB of FFmpeg's memory
# Edits times samples, beyond one edit per track. FFmpeg's time grows with the square of it: 3 s at
# 40,000. Almost every file has one edit; more come from cutting inside a clip without encoding.
MAX_EDITED = 20_000
MAX_TRACK = (1 << 31) - 1  # of a higher number FFmpeg never finds the fragments, and never ends
NAMES = re.compile(rb"stsz|stz2|trun|elst|cmov|stts|stsd|hdlr|tkhd")
COUNT_AT = {b"stsz": 12, b"stz2": 12, b"trun": 8}  # bytes after the name's first
TABLES = (b"stsz", b"stz2", b"stts", b"stsd")
CONTAINERS = (b"mdia", b"minf", b"stbl")
# Codecs whose samples FFmpeg keeps by chunk, whatever their number.
PCM = (b"sowt", b"twos", b"lpcm", b"raw ", b"NONE", b"in24", b"in32", b"fl32", b"fl64", b"ulaw")


def is_mp4(head: bytes) -> bool:
    """By the first bytes of the file: 8 are enough."""
    return head[4:8] in FIRST_BOXES


def check_mp4(file: BinaryIO) -> None:
    """Raises MediaError ("too_large", "unsupported"). Leaves the file at its beginning."""
    headers = b"".join(headers_of(file))
    file.seek(0)
    samples = edits = 0
    for found in NAMES.finditer(headers):
        name, at = found.group(), found.start()
        if name == b"cmov":
            raise MediaError(
                "unsupported", "expected an MP4 file with a plain header; got a compressed one"
            )
        if name == b"tkhd" and (track := track_of(headers, at)) > MAX_TRACK:
            raise MediaError(
                "unsupported",
                f"expected an MP4 file whose tracks have numbers up to {MAX_TRACK}; got {track}",
            )
        if name == b"elst":
            edits += max(0, edits_of(headers, at) - 1)
        elif name in COUNT_AT:
            samples += u32(headers, at + COUNT_AT[name])
    if samples > MAX_SAMPLES:
        samples -= pcm_samples(headers)
    if samples > MAX_SAMPLES:
        raise MediaError(
            "too_large",
            f"expected an MP4 file of at most {MAX_SAMPLES} samples; got {samples} declared",
        )
    if edits and (edits + 1) * samples > MAX_EDITED:
        raise MediaError(
            "unsupported",
            f"expected an MP4 file without cuts in its edit list; got {edits} of them in "
            f"{samples} samples: encode it again",
        )


def track_of(headers: bytes, at: int) -> int:
    """The number of the track whose head is at `at`: behind two times, which may be wide."""
    wide = headers[at + 4] == 1 if at + 4 < len(headers) else False
    return u32(headers, at + (24 if wide else 16))


def edits_of(headers: bytes, at: int) -> int:
    """How many entries of the edit list at `at` show something; the others are pauses."""
    wide = headers[at + 4] == 1 if at + 4 < len(headers) else False
    length, time_at = (20, 8) if wide else (12, 4)
    size, first = u32(headers, at - 4), at + 12
    stop = len(headers) if size < 16 else min(at - 4 + size, len(headers))
    stop = min(stop, first + length * u32(headers, at + 8), len(headers) - time_at)
    shown = 0
    for entry in range(first, stop, length):
        shown += headers[entry + time_at] < 0x80  # a media time of -1 is a pause
        if shown > MAX_EDITED:
            break
    return shown


def headers_of(file: BinaryIO) -> Iterator[bytes]:
    """The file's boxes of the first level, but those of media data."""
    length = file.seek(0, 2)
    file.seek(0)
    total = 0
    while len(start := file.read(8)) == 8:
        size, name = u32(start, 0), start[4:]
        if size == 1:
            start += file.read(8)
            size = int.from_bytes(start[8:16], "big")
        rest = size - len(start) if size else None  # 0: to the end of the file
        if rest is not None and rest < 0:
            return
        if name == b"mdat":
            if rest is None or rest > length - file.tell():  # further than one can seek, too
                return
            file.seek(rest, 1)
            continue
        body = file.read(MAX_HEADERS - total + 1 if rest is None else min(rest, MAX_HEADERS + 1))
        total += len(body)
        if total > MAX_HEADERS:
            raise MediaError(
                "too_large", f"expected an MP4 file with at most {MAX_HEADERS} bytes of headers"
            )
        yield start + body


def pcm_samples(headers: bytes) -> int:
    """Samples of the tracks of uncompressed audio; 0 unless every table is where it belongs."""
    tables = {
        match.start()
        for match in NAMES.finditer(headers)
        if match.group() in TABLES
        or (match.group() == b"hdlr" and handler(headers, match.start()) in (b"vide", b"soun"))
    }
    samples = 0
    for name, start, stop in boxes(headers, 0, len(headers)):
        if name != b"moov":
            continue
        for child, begin, end in boxes(headers, start, stop):
            if child == b"trak":
                found = [(name, at) for name, at in leaves(headers, begin, end) if at in tables]
                tables -= {at for _, at in found}
                samples += pcm_count(headers, found)
    return 0 if tables else samples


def pcm_count(headers: bytes, tables: list[tuple[bytes, int]]) -> int:
    """The samples of a track if FFmpeg keeps them by chunk: audio, each one unit of time long."""
    track = dict(tables)
    if len(track) != len(tables) or track.keys() != {b"hdlr", b"stsd", b"stts", b"stsz"}:
        return 0
    by_chunk = (
        handler(headers, track[b"hdlr"]) == b"soun"
        and u32(headers, track[b"stsd"] + 8) == 1
        and headers[track[b"stsd"] + 16 : track[b"stsd"] + 20] in PCM
        and u32(headers, track[b"stts"] + 8) == 1
        and u32(headers, track[b"stts"] + 16) == 1
    )
    return u32(headers, track[b"stsz"] + 12) if by_chunk else 0


def leaves(headers: bytes, start: int, stop: int) -> Iterator[tuple[bytes, int]]:
    """(name, position of the name) of a track's boxes that hold no others."""
    for name, begin, end in boxes(headers, start, stop):
        if name in CONTAINERS:
            yield from leaves(headers, begin, end)
        else:
            yield name, begin - 4


def boxes(headers: bytes, start: int, stop: int) -> Iterator[tuple[bytes, int, int]]:
    """(name, start and end of what is in it). No lengths of 64 bits: no header needs them."""
    while start + 8 <= stop:
        size = u32(headers, start)
        if size < 8 or start + size > stop:
            return
        yield headers[start + 4 : start + 8], start + 8, start + size
        start += size


def handler(headers: bytes, at: int) -> bytes:
    return headers[at + 12 : at + 16]


def u32(data: bytes, at: int) -> int:
    """0 beyond the end."""
    part = data[at : at + 4]
    return int.from_bytes(part, "big") if len(part) == 4 else 0
