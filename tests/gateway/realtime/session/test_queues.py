"""What waits between a session's tasks: in order, and never too much at once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lookhear.gateway.realtime.session.queues import MOST_TAKEN, ByteQueue


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
