"""What is sent arrives whole and in order, and others run while a large frame is on its way."""

from __future__ import annotations

import asyncio
import socket

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lookhear.engine.client.outgoing import JOINED, PIECE, Outgoing

SIZES = st.lists(st.sampled_from([0, 1, 100, JOINED, JOINED + 1, 3 * PIECE - 7]), max_size=8)


async def stream() -> tuple[Outgoing, asyncio.StreamReader, asyncio.StreamWriter]:
    ours, theirs = socket.socketpair()
    _, writer = await asyncio.open_connection(sock=ours)
    reader, other = await asyncio.open_connection(sock=theirs)
    return Outgoing(writer), reader, other


@settings(max_examples=40, deadline=None)
@given(SIZES)
def test_frames_arrive_whole_and_in_order(sizes: list[int]) -> None:
    async def body() -> None:
        outgoing, reader, other = await stream()
        frames = [
            (bytes([number]) * 8, bytes([number]) * size) for number, size in enumerate(sizes)
        ]
        for frame in frames:
            outgoing.send(frame)
        expected = b"".join(b"".join(frame) for frame in frames)
        async with asyncio.timeout(60):
            assert await reader.readexactly(len(expected)) == expected
            await outgoing.drain()
        assert outgoing.backlog == 0
        outgoing.close()
        assert await reader.read() == b""
        other.close()

    asyncio.run(body())


@pytest.mark.parametrize("large", ["header", "payload"])
async def test_others_run_while_a_large_frame_goes_to_a_reader_that_keeps_up(large: str) -> None:
    outgoing, reader, other = await stream()
    pieces, turns = 40, 0
    frame: list[bytes | memoryview] = [b"head", memoryview(bytes(pieces * PIECE))]
    outgoing.send(frame if large == "payload" else frame[::-1])
    assert outgoing.backlog == 4 + pieces * PIECE  # nothing is written in this turn

    async def others() -> None:
        nonlocal turns
        while outgoing.backlog:
            turns += 1
            await asyncio.sleep(0)

    async with asyncio.timeout(60):
        await asyncio.gather(others(), reader.readexactly(4 + pieces * PIECE))
    assert turns >= pieces
    outgoing.close()
    other.close()


async def test_what_is_left_is_dropped_when_it_is_closed() -> None:
    outgoing, reader, other = await stream()
    outgoing.send((b"head", memoryview(bytes(100 * PIECE))))
    assert outgoing.backlog == 4 + 100 * PIECE
    outgoing.close()
    async with asyncio.timeout(60):
        await outgoing.drain()
        assert len(await reader.read()) < 100 * PIECE
    assert outgoing.is_closing
    other.close()


async def test_a_reader_that_goes_away_ends_it() -> None:
    outgoing, _, other = await stream()
    other.close()
    outgoing.send((b"head", memoryview(bytes(100 * PIECE))))
    async with asyncio.timeout(60):
        await outgoing.drain()
    assert outgoing.backlog == 0
    outgoing.close()
