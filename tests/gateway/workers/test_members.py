"""Who gets the next connection, and when one that died is started again."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lookhear.engine.client.supervisor import RESTART_PAUSES, STEADY_SECONDS
from lookhear.gateway.workers.members import (
    DOWN,
    PATIENCE_SECONDS,
    READY,
    Deaths,
    Member,
    in_order,
)


def ready(count: int) -> list[Member]:
    members = [Member(number) for number in range(1, count + 1)]
    for member in members:
        member.said(READY, 0, 0)
    return members


class Given:
    """Connections, as they are given."""

    def __init__(self, members: list[Member]) -> None:
        self.members = members
        self.count = 0
        self.working = dict.fromkeys(range(1, len(members) + 1), 0)

    def one(self) -> int:
        best = in_order(self.members)[0]
        self.count += 1
        best.given, best.latest = best.given + 1, self.count
        self.working[best.number] += 1
        return best.number

    def report(self, number: int) -> None:
        member = self.members[number - 1]
        member.said(READY, self.working[number], member.given)


@given(st.integers(2, 8), st.lists(st.integers(0, 8), max_size=100))
def test_who_stays_is_dealt_evenly_whenever_they_report(count: int, reports: list[int]) -> None:
    dealt = Given(ready(count))
    for number in reports:
        if 1 <= number <= count:
            dealt.report(number)
        dealt.one()
        assert max(dealt.working.values()) - min(dealt.working.values()) <= 1


@given(st.lists(st.tuples(st.integers(1, 4), st.booleans()), max_size=60))
def test_whoever_has_lost_more_gets_more(steps: list[tuple[int, bool]]) -> None:
    """Connections end anywhere; when that was reported, the next one goes where fewest are."""
    dealt = Given(ready(4))
    for number, ends in steps:
        if ends and dealt.working[number]:
            dealt.working[number] -= 1
        for member in dealt.members:
            dealt.report(member.number)
        before = dict(dealt.working)
        assert before[dealt.one()] == min(before.values())


def test_short_requests_go_round() -> None:
    """They have ended when the workers report, so nobody has anything to do."""
    dealt = Given(ready(3))
    order = []
    for _ in range(9):
        order.append(dealt.one())
        dealt.working = dict.fromkeys(dealt.working, 0)
        for member in dealt.members:
            dealt.report(member.number)
    assert sorted(order[:3]) == [1, 2, 3] and order[:3] * 3 == order


def test_who_is_better_comes_first() -> None:
    silent, starting, full, busy, idle, down = members = ready(6)
    silent.silence = PATIENCE_SECONDS + 0.1
    starting.said("starting", 0, 0)
    full.said(READY, 1, 0, is_full=True)
    busy.said(READY, 7, 0)
    down.ended()
    assert in_order(members) == [idle, busy, full, starting, silent]
    assert down.status == DOWN


def test_a_new_process_has_none_of_the_old_ones_connections() -> None:
    member, *_ = ready(1)
    member.given = 5
    member.said(READY, 3, 4)
    assert member.load == 4
    member.ended()
    assert member.load == 0 and member.was_ready
    member.said("starting", 0, 0)
    assert member.load == 0


@given(st.lists(st.floats(0, 2 * STEADY_SECONDS), max_size=30))
def test_pauses_grow_until_it_lived_long_enough(lives: list[float]) -> None:
    deaths, in_a_row = Deaths(), 0
    for lived in lives:
        in_a_row = 1 if lived >= STEADY_SECONDS else in_a_row + 1
        expected = RESTART_PAUSES[in_a_row - 1] if in_a_row <= len(RESTART_PAUSES) else None
        assert deaths.after(lived) == expected
