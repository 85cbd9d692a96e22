"""What waits between two threads is bounded, and nobody waits for one who is gone."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lookhear.engine.client.backlog import Backlog


def started(work: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


@settings(max_examples=30, deadline=None)
@given(weights=st.lists(st.integers(0, 9), max_size=40), limit=st.integers(1, 12))
def test_everything_arrives_in_order_and_never_more_than_the_limit_waits(
    weights: list[int], limit: int
) -> None:
    backlog: Backlog[int | None] = Backlog(limit)

    def put() -> None:
        for weight in weights:
            backlog.put(weight, weight)
        backlog.put(None, 0)

    thread = started(put)
    taken: list[int | None] = []
    while None not in taken:
        items = backlog.take(wait=True)
        held = [item for item in items if item is not None]
        assert items and (sum(held) <= limit or sum(held[1:]) == 0)
        taken += items
    thread.join()
    assert taken == [*weights, None] and backlog.take(wait=False) == []


@pytest.mark.parametrize("leaves", [False, True])
def test_who_puts_waits_for_room_or_until_nobody_takes(leaves: bool) -> None:
    backlog: Backlog[str] = Backlog(2)
    backlog.put("large", 5)  # alone, it has room
    thread = started(lambda: backlog.put("more", 1))
    thread.join(timeout=0.05)
    assert thread.is_alive()
    if leaves:
        backlog.abandon()
        thread.join()
        assert backlog.take(wait=False) == ["large"]
    else:
        assert backlog.take(wait=True) == ["large"]
        thread.join()
        assert backlog.take(wait=True) == ["more"]
