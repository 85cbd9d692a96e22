"""Messages that have only begun stay within a bound over all; who holds most gives up."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lookhear.gateway.sockets.unfinished import UNFINISHED, Unfinished

MOST = 100


class Holding:
    def __init__(self, unfinished: Unfinished) -> None:
        self.size = 0
        self.unfinished = unfinished
        self.held_by_others: list[int] | None = None
        self.others: list[Holding] = []

    def give_up(self) -> None:
        self.held_by_others = [other.size for other in self.others if other is not self]
        self.gave_up, self.size = self.size, 0
        self.unfinished.holds(self, 0)  # as a connection does


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 150)), max_size=50))
def test_the_bound_holds_and_the_largest_gives_up(script: list[tuple[int, int]]) -> None:
    told: list[str] = []
    unfinished = Unfinished(MOST, told.append)
    holders = [Holding(unfinished) for _ in range(5)]
    for holder in holders:
        holder.others = holders
    for which, size in script:
        for holder in holders:
            holder.held_by_others = None
        holders[which].size = size
        unfinished.holds(holders[which], size)
        assert unfinished.total == sum(holder.size for holder in holders) <= MOST
        for holder in holders:
            if holder.held_by_others is not None:
                assert holder.gave_up >= max(holder.held_by_others)
    assert set(told) <= {UNFINISHED}
