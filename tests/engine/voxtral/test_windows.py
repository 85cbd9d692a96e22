"""Blocks behind a window are given back, whatever is placed; where there are none left, whoever has
the most forgets sooner, and everybody goes on."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lookhear.engine.core.request import RequestError
from lookhear.engine.paged.blocks import BLOCK_TOKENS
from lookhear.engine.voxtral.windows import Windows


@settings(max_examples=60, deadline=None)
@given(
    size=st.integers(1, 60),
    counts=st.lists(st.tuples(st.integers(0, 2), st.integers(1, 50)), max_size=30),
)
def test_all_that_is_seen_is_there_and_no_more(size: int, counts: list[tuple[int, int]]) -> None:
    windows = Windows(60, size)
    open_ones = [windows.begin() for _ in range(3)]
    where: list[dict[int, int]] = [{} for _ in range(3)]  # position -> slot
    for which, count in counts:
        window = open_ones[which]
        work = [(window, count)]
        placed = windows.place(work)
        again = windows.place(work)  # as after a failure
        assert (placed.slots == again.slots).all()
        assert list(placed.positions) == list(range(window.past, window.past + count))
        where[which].update(zip(placed.positions.tolist(), placed.slots.tolist(), strict=True))
        past = int(placed.past_lengths[0])
        table = placed.block_tables[0]
        for position in range(max(0, window.past + 1 - size), window.past + count):
            inside = position - (window.past - past)
            slot = table[inside // BLOCK_TOKENS] * BLOCK_TOKENS + inside % BLOCK_TOKENS
            assert slot == where[which][position]
        windows.move(work)
        windows.check()
        assert (len(window.blocks) - 1) * BLOCK_TOKENS < size + BLOCK_TOKENS
    assert not windows.num_forgotten
    for window in open_ones:
        windows.end(window)
        windows.end(window)
    windows.check()
    assert windows.num_held == 0


def test_who_has_the_most_forgets_sooner() -> None:
    windows = Windows(1 + 8, 1000)
    old, new = windows.begin(), windows.begin()
    for _ in range(7 * BLOCK_TOKENS):
        windows.place([(old, 1)])
        windows.move([(old, 1)])
    assert len(old.blocks) == 7 and not windows.num_forgotten
    for _ in range(400):
        work = [(old, 1), (new, 1)]
        placed = windows.place(work)
        windows.move(work)
        windows.check()
        assert placed.positions.tolist() == [old.past - 1, new.past - 1]
    assert windows.num_held <= 8 and abs(len(old.blocks) - len(new.blocks)) <= 2
    assert windows.num_forgotten > 40


def test_no_room_at_all_is_said() -> None:
    windows = Windows(1 + 2, 100)
    for _ in range(2):
        windows.place([(windows.begin(), 1)])
    with pytest.raises(RequestError, match="no room"):
        windows.place([(windows.begin(), 1)])
    windows.check()
