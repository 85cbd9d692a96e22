"""Events of the Wyoming protocol as they come."""

from __future__ import annotations

import asyncio
import json

import pytest

from lookhear.wyoming.events import (
    MAX_DATA,
    MAX_LINE,
    MAX_PAYLOAD,
    BadEvent,
    Incoming,
    read_event,
)


async def read(*pieces: bytes) -> list[Incoming]:
    """All the events in these bytes."""
    reader = asyncio.StreamReader(limit=MAX_LINE)
    for piece in pieces:
        reader.feed_data(piece)
    reader.feed_eof()
    found = []
    while (event := await read_event(reader)) is not None:
        found.append(event)
    return found


async def test_an_event_is_a_line_data_and_a_payload() -> None:
    data = json.dumps({"rate": 8}).encode()
    header = {"type": "a", "data": {"x": "ü"}, "data_length": len(data), "payload_length": 3}
    line = json.dumps(header, ensure_ascii=False).encode() + b"\n"
    told = await read(line + data, b"\x00\n\xff", b'{"type": "b"}\n', b'{"type": "c", "data"')
    assert told == [Incoming("a", {"x": "ü", "rate": 8}, b"\x00\n\xff"), Incoming("b", {}, b"")]


@pytest.mark.parametrize(
    "line, said",
    [
        (b"hello\n", "JSON object in a line, got"),
        (b"[1]\n", "JSON object in a line, got"),
        (b'{"data": {}}\n', "type: expected text, got null"),
        (rb'{"type": "\ud800"}' + b"\n", r'type: expected text, got "\\ud800"'),
        (b'{"type": "a", "data": [1]}\n', "a: data: expected an object"),
        (b'{"type": "a", "data_length": "1"}\n', "data_length: expected a number of bytes"),
        (b'{"type": "a", "data_length": 3}\n[1]', "JSON object in a line, got"),
        (f'{{"type": "a", "data_length": {MAX_DATA + 1}}}\n'.encode(), "data_length"),
        (f'{{"type": "a", "payload_length": {MAX_PAYLOAD + 1}}}\n'.encode(), "payload_length"),
        (b'{"type": "a", "payload_length": -1}\n', "payload_length"),
        (b'{"type": "' + b"a" * MAX_LINE + b'"}\n', f"at most {MAX_LINE} bytes"),
        (b"[" * 50_000 + b"\n", "JSON object in a line"),
    ],
)
async def test_what_is_no_event_is_refused_in_words(line: bytes, said: str) -> None:
    with pytest.raises(BadEvent, match=said.replace("(", r"\(")):
        await read(line)


@pytest.mark.parametrize(
    "field, value", [("rate", 1), ("width", 5), ("channels", 0), ("rate", "x")]
)
def test_a_format_that_cannot_be_is_refused_by_name(field: str, value: object) -> None:
    data = {"rate": 16_000, "width": 2, "channels": 1, field: value}
    with pytest.raises(BadEvent, match=f"^audio-start: {field}: expected a whole number from"):
        Incoming("audio-start", data, b"").format()
