"""Events of the Wyoming protocol as they come, and raw audio of any common format."""

from __future__ import annotations

import asyncio
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookhear.wyoming.events import (
    MAX_DATA,
    MAX_LINE,
    MAX_PAYLOAD,
    BadEvent,
    Incoming,
    RawConverter,
    RawFormat,
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


def encoded(samples: np.ndarray[tuple[int], np.dtype[np.float64]], width: int) -> bytes:
    whole = np.rint(samples * 2.0 ** (8 * width - 1)).astype(np.int64)
    if width == 1:
        return (whole + 128).astype(np.uint8).tobytes()
    return b"".join(int(value).to_bytes(width, "little", signed=True) for value in whole)


@pytest.mark.parametrize("width", [1, 2, 3, 4])
@pytest.mark.parametrize("channels", [1, 2, 3])
def test_every_format_is_the_same_sound(width: int, channels: int) -> None:
    tone = 0.5 * np.sin(np.arange(4800) / 8)
    data = encoded(np.repeat(tone, channels), width)
    heard = np.frombuffer(RawConverter(RawFormat(24_000, width, channels)).feed(data), "<i2")
    assert len(heard) == len(tone)
    assert np.abs(heard / 32768 - tone).max() <= (0.005 if width == 1 else 1 / 32768)


@given(st.lists(st.integers(0, 700), max_size=8), st.sampled_from([(2, 1), (2, 2), (3, 2), (1, 1)]))
def test_where_chunks_are_cut_changes_nothing(cuts: list[int], form: tuple[int, int]) -> None:
    data = bytes(range(256)) * 3
    format = RawFormat(16_000, *form)
    whole = RawConverter(format).feed(data, last=True)
    converter, edges = RawConverter(format), [0, *sorted(cuts), len(data)]
    told = [converter.feed(data[a:b]) for a, b in zip(edges, edges[1:], strict=False)]
    assert b"".join(told) + converter.feed(b"", last=True) == whole
