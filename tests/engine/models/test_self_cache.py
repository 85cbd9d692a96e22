from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lookhear.engine.core.request import Beginning
from lookhear.engine.models.caches import TRASH_ROW, KeptRow, SelfCache


def test_shape_and_trash_row() -> None:
    cache = SelfCache(layers=3, rows=2, heads=4, context=5, head_dim=6)
    assert cache.data.shape == (3, 2, 3, 4, 5, 6)
    assert [cache.allocate() for _ in range(3)] == [1, 2, None]
    assert cache.num_free == 0


@settings(deadline=None)
@given(rows=st.integers(1, 6), choices=st.lists(st.integers(-1, 5), max_size=60))
def test_any_sequence_of_allocate_and_free(rows: int, choices: list[int]) -> None:
    """-1 allocates; another number frees the row held at that place, if there is one."""
    cache = SelfCache(1, rows, 1, 1, 1)
    held: list[int] = []
    for choice in choices:
        if choice < 0:
            row = cache.allocate()
            assert (row is None) == (len(held) == rows)
            if row is not None:
                assert row not in held and row != TRASH_ROW
                held.append(row)
        elif choice < len(held):
            cache.free(held.pop(choice))
        cache.check()
        assert cache.num_free == rows - len(held)


@settings(deadline=None)
@given(
    rows=st.integers(1, 4), steps=st.lists(st.tuples(st.sampled_from("atkd"), st.integers(0, 4)))
)
def test_a_row_is_kept_until_nobody_asks_or_somebody_needs_it(
    rows: int, steps: list[tuple[str, int]]
) -> None:
    """a: allocate; t: take what is kept of a beginning; k: free, and keep for it; d: forget it."""
    cache = SelfCache(1, rows, 1, 1, 1)
    held: list[int] = []
    beginnings = [Beginning() for _ in range(5)]
    kept: dict[int, int] = {}  # beginning -> row, in the order of keeping
    for step, which in steps:
        if step == "a":
            row = cache.allocate()
            assert (row is None) == (len(held) == rows)
            if row is None:
                continue
            if row in kept.values():  # all others are held, or kept since
                assert len(held) + len(kept) == rows and row == next(iter(kept.values()))
                kept = {of: other for of, other in kept.items() if other != row}
            held.append(row)
        elif step == "t":
            found = cache.take(beginnings[which])
            assert (found and found.row) == kept.pop(which, None)
            if found is not None:
                assert found.tokens == (which,)
                held.append(found.row)
        elif step == "k" and held:
            kept.pop(which, None)
            kept[which] = held.pop()
            cache.keep(beginnings[which], KeptRow(kept[which], (which,), 0.0))
            cache.free(kept[which])
        elif step == "d":
            beginnings[which] = Beginning()
            kept.pop(which, None)
        cache.check()
        assert cache.num_free == rows - len(held)


@pytest.mark.parametrize("row", [TRASH_ROW, 1, 7])
def test_freeing_what_is_not_held_is_a_bug(row: int) -> None:
    with pytest.raises(AssertionError, match="not allocated"):
        SelfCache(1, 2, 1, 1, 1).free(row)
