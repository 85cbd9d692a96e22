"""JSON of strangers, bounded before it is parsed.

What JSON costs is not its bytes but its values: `[[],[],...` becomes thirty times as large in
memory, and while it is parsed no other thread runs. Media, on the other hand, are a few long
strings that cost what they weigh. So long strings of plain ASCII, as base64 is, are cut out first,
at the speed of a search for quotes, and what is left (the outline) is small and has few values, or
is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

Data = bytes | bytearray

SMALL = 64 * 1024  # bytes: so much may be anything
MAX_VALUES = 250_000  # an outline of nothing else takes some 20 ms and 20 MB
LONG = 4096  # bytes of a string that is cut out
AT_ONCE = 1024 * 1024  # bytes of it worked on before another thread may run
NEAR = 1024  # bytes behind a string in which a colon makes it a name

_MARKS = (b"[", b"{", b",", b":")  # each value has one in front of it, but for the first
_HOLE = b"NaN"  # stands for a string that was cut out; itself it is no JSON
_BACKSLASH, _SPACE, _ASCII = 0x5C, 0x20, 0x7F
_REST_OF_STRING = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_COLON = re.compile(rb"[ \t\n\r]*+:")


class TooMuchJson(ValueError):
    """What was expected, and what came."""


@dataclass(frozen=True, slots=True)
class Outline:
    """text: JSON with a hole for each of `strings`, in order."""

    text: bytes
    strings: list[str]


def parse_json(
    data: Data, most: int | None = None, constant: Callable[[str], float] = float
) -> Any:
    """The value, as `json.loads` reads it. most: bytes of its outline; None: any number. constant:
    makes a number of the name of one that JSON does not have.

    TooMuchJson if its outline is too large; ValueError if it is no JSON; RecursionError."""
    if len(data) <= SMALL:
        return json.loads(data, parse_constant=constant)
    cut = outline(data, most)
    strings = iter(cut.strings)

    def filled(name: str) -> Any:
        return next(strings) if name == "NaN" else constant(name)

    return json.loads(cut.text, parse_constant=filled)


def outline(data: Data, most: int | None = None) -> Outline:
    """JSON text without its long strings, nothing else of it being checked. Errors: see
    `parse_json`."""
    encoding = json.detect_encoding(data)
    if encoding != "utf-8":
        data = data.decode(encoding, "surrogatepass").encode("utf-8", "surrogatepass")
    return _Scan(data, len(data) if most is None else most).outline()


class _Scan:
    """One pass over the text of one value."""

    def __init__(self, data: Data, most: int) -> None:
        self._data = data
        self._most = most
        self._size = 0  # bytes of the outline so far
        self._values = 1
        self._quoted = 0  # strings

    def outline(self) -> Outline:
        data, at, kept = self._data, 0, 0
        pieces: list[Data] = []
        strings: list[str] = []
        for start, end in self._strings():
            self._structure(at, start - 1)
            at = end + 1
            text = self._plain(start, end) if end - start >= LONG else None
            if text is None:
                self._grow(at - start + 1)
                continue
            pieces += [data[kept : start - 1], _HOLE]
            strings.append(text)
            self._grow(len(_HOLE))
            kept = at
        self._structure(at, len(data))
        pieces.append(data[kept:])
        return Outline(b"".join(pieces), strings)

    def _strings(self) -> Iterator[tuple[int, int]]:
        """Where the inside of each string begins and ends. The last one may have no end: then the
        parser says so."""
        data, at = self._data, 0
        while (start := data.find(b'"', at) + 1) > 0:
            end = data.find(b'"', start)
            if end > start and data[end - 1] == _BACKSLASH:  # so it may be part of the string
                left = self._most - self._size
                found = _REST_OF_STRING.match(data, start, start + left + 1)
                if found is None and len(data) - start > left:
                    raise self._too_large()
                end = -1 if found is None else found.end() - 1
            if end < 0:
                return
            self._quoted += 1
            if self._quoted > MAX_VALUES:
                raise _too_many()
            yield start, end
            at = end + 1

    def _plain(self, start: int, end: int) -> str | None:
        """The string, if its characters stand for themselves (but for slashes, which some writers
        always escape) and it is no name."""
        data = self._data
        if _COLON.match(data, end + 1, end + 1 + NEAR):
            return None
        characters = np.frombuffer(data, np.uint8, end - start, start)
        if characters.min() < _SPACE or characters.max() > _ASCII:
            return (
                None  # a control character: the parser refuses it; or wide ones, once they are text
            )
        if data.find(b"\\", start, end) < 0:
            return str(memoryview(data)[start:end], "ascii")
        if data.find(b"\\\\", start, end) >= 0:
            return None
        pieces = []
        while start < end:
            stop = min(start + AT_ONCE, end)
            stop += data[stop - 1] == _BACKSLASH
            pieces.append(data[start:stop].replace(b"\\/", b"/"))
            if b"\\" in pieces[-1]:
                return None
            start = stop
        return b"".join(pieces).decode("ascii")

    def _structure(self, start: int, end: int) -> None:
        """What is between two strings."""
        if end <= start:
            return
        data = self._data
        self._grow(end - start)
        self._values += sum(data.count(mark, start, end) for mark in _MARKS)
        if self._values > MAX_VALUES:
            raise _too_many()
        if data.find(b"N", start, end) >= 0:
            raise ValueError("NaN is no number of JSON")

    def _grow(self, size: int) -> None:
        self._size += size
        if self._size > self._most:
            raise self._too_large()

    def _too_large(self) -> TooMuchJson:
        return TooMuchJson(
            f"expected at most {self._most} bytes of JSON besides long strings of plain ASCII, "
            f"got more, in {len(self._data)} bytes"
        )


def _too_many() -> TooMuchJson:
    return TooMuchJson(f"expected at most {MAX_VALUES} values, got more")
