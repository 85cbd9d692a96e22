"""What waits between a session's tasks: in order, and never too much at once."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.websockets import WebSocket

from lookhear.gateway.realtime.session import queues
from lookhear.gateway.realtime.session.queues import MOST_TAKEN, ByteQueue, Outbox, State


@given(
    sizes=st.lists(st.integers(0, 50), min_size=1, max_size=4 * MOST_TAKEN),
    most=st.integers(1, 2_000),
)
async def test_batches_are_bounded_and_lose_nothing(sizes: list[int], most: int) -> None:
    queue: ByteQueue[int] = ByteQueue(1_000_000)
    for number, size in enumerate(sizes):
        queue.put(number, size)
    assert queue.size == sum(sizes)
    taken: list[int] = []
    while len(taken) < len(sizes):
        batch = await queue.take(most)
        assert 1 <= len(batch) <= MOST_TAKEN
        assert len(batch) == 1 or sum(sizes[number] for number in batch) <= most
        taken += batch
    assert taken == list(range(len(sizes))) and queue.size == 0


class Deaf:
    """A WebSocket whose client takes nothing until it is let."""

    def __init__(self) -> None:
        self.takes = asyncio.Event()
        self.said: list[str] = []

    async def send_text(self, text: str) -> None:
        await self.takes.wait()
        self.said.append(text)


@contextlib.asynccontextmanager
async def told(number: int) -> AsyncIterator[tuple[Deaf, Outbox]]:
    """So many answers of 100 bytes to one that takes nothing, in an outbox of 1,000; the first is
    being written."""
    deaf = Deaf()
    outbox = Outbox(1000, kept=0)
    writing = asyncio.create_task(outbox.write(cast(WebSocket, deaf), lambda: False))
    try:
        for count in range(number):
            outbox.send({"n": f"{count:091}"})
            await asyncio.sleep(0)
        yield deaf, outbox
    finally:
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)


async def test_from_the_half_on_there_is_no_room_until_the_client_takes_some() -> None:
    async with told(6) as (_, outbox):
        await outbox.room()
    async with told(8) as (deaf, outbox):
        waiting = asyncio.create_task(outbox.room())
        await asyncio.sleep(0)
        assert not waiting.done() and outbox.state is State.OPEN
        deaf.takes.set()
        await waiting
        while len(deaf.said) < 8:
            await asyncio.sleep(0)
        assert outbox.state is State.OPEN


async def test_what_is_no_ascii_takes_no_more_room_than_it_is_long() -> None:
    async with told(0) as (deaf, outbox):
        frames = [{"echo": "字" * 900}, {"echo": "字" * 900}, {"half of a character": "\ud800"}]
        for frame in frames[:2]:
            outbox.send(frame)
        assert outbox.state is State.OPEN
        deaf.takes.set()
        while len(deaf.said) < 2:
            await asyncio.sleep(0)
        outbox.send(frames[2])
        while len(deaf.said) < 3:
            await asyncio.sleep(0)
        assert [json.loads(text.encode()) for text in deaf.said] == frames


async def test_who_takes_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queues, "TAKE_SECONDS", 0.001)
    async with told(8) as (_, outbox):
        await outbox.room()
        assert outbox.state is State.OVERFLOWED and outbox.close_code == 1013


async def test_an_inbox_of_many_small_items_is_full() -> None:
    inbox: ByteQueue[int] = ByteQueue(1_000_000, 10)
    for number in range(10):
        assert not inbox.full
        inbox.put(number, 1)
    assert inbox.full
    await inbox.take(3)
    assert not inbox.full
    await inbox.room()
