"""Events of the Wyoming protocol as they come: a line of JSON, more JSON, a payload."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any, TypeGuard

from lookhear.errors import LookhearError
from lookhear.sources.pcm import WIDTHS
from lookhear.sources.raw import RawFormat

MAX_LINE = 64 * 1024  # bytes, as of all limits here: of the first line
MAX_DATA = 1 << 20  # of the JSON behind it
MAX_PAYLOAD = 4 << 20  # of audio in one event
MAX_CHANNELS = 64


class BadEvent(LookhearError):
    """What came is no event, or not one that means anything now."""


@dataclass(frozen=True, slots=True)
class Incoming:
    """An event of a client. data: {} if there is none."""

    type: str
    data: dict[str, Any]
    payload: bytes

    def text(self, name: str) -> str | None:
        """An optional text of the data. BadEvent."""
        value = self.data.get(name)
        if value is not None and not _is_text(value):
            raise BadEvent(f"{self.type}: {name}: expected text, got {_shown(value)}")
        return value or None

    def texts(self, name: str) -> list[str]:
        """An optional list of texts. BadEvent."""
        values = self.data.get(name) or []
        if not isinstance(values, list) or not all(map(_is_text, values)):
            raise BadEvent(f"{self.type}: {name}: expected a list of texts, got {_shown(values)}")
        return values

    def format(self) -> RawFormat:
        """That of its audio. BadEvent."""
        return RawFormat(
            rate=self._whole("rate", range(4_000, 384_001)),
            width=self._whole("width", range(WIDTHS[0], WIDTHS[-1] + 1)),
            channels=self._whole("channels", range(1, MAX_CHANNELS + 1)),
        )

    def _whole(self, name: str, among: range) -> int:
        value = self.data.get(name)
        if isinstance(value, bool) or not isinstance(value, int) or value not in among:
            span = f"a whole number from {among.start} to {among.stop - 1}"
            raise BadEvent(f"{self.type}: {name}: expected {span}, got {_shown(value)}")
        return value


async def read_event(reader: asyncio.StreamReader) -> Incoming | None:
    """The next event; None: the client has hung up. reader: with a limit of MAX_LINE. BadEvent if
    what came is none; where the next one begins is not known then."""
    try:
        line = await reader.readuntil(b"\n")
        header = _object(line)
        type = header.get("type")
        if not _is_text(type):
            raise BadEvent(f"type: expected text, got {_shown(type)}")
        data = header.get("data") or {}
        if not isinstance(data, dict):
            raise BadEvent(f"{type}: data: expected an object, got {_shown(data)}")
        if length := _length(header, "data_length", MAX_DATA):
            data = data | _object(await reader.readexactly(length))
        length = _length(header, "payload_length", MAX_PAYLOAD)
        return Incoming(type, data, await reader.readexactly(length))
    except asyncio.LimitOverrunError:
        raise BadEvent(f"expected a line of at most {MAX_LINE} bytes, got a longer one") from None
    except (asyncio.IncompleteReadError, ConnectionError):
        return None


def _object(text: bytes) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        got = _shown(text.decode("utf-8", "replace"))
        raise BadEvent(f"expected an event, a JSON object in a line, got {got}")
    return found


def _length(header: dict[str, Any], name: str, most: int) -> int:
    length = header.get(name) or 0
    if isinstance(length, bool) or not isinstance(length, int) or not 0 <= length <= most:
        raise BadEvent(f"{name}: expected a number of bytes up to {most}, got {_shown(length)}")
    return length


def _is_text(value: object) -> TypeGuard[str]:
    """JSON can spell half a character, which could not be sent back."""
    if not isinstance(value, str):
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _shown(value: object) -> str:
    """In an error, however long it is."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    text = text.encode(errors="backslashreplace").decode()
    return text if len(text) <= 80 else f"{text[:77]}..."
