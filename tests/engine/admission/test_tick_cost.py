"""What ticks cost: found from steps, whatever the mixture, and not thrown off by one of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookhear.engine.admission.tick_cost import WORST, Cost, Rehearsal, TickCost

PARTS = st.floats(0.001, 1.0)
CROWDS = st.lists(st.integers(1, 12), min_size=40, max_size=80)


def tick(cost: TickCost, true: Cost, together: int, now: float, number: int = 0) -> None:
    """All of a crowd are served in one step of the length that they take."""
    names = [f"{number}-{i}" for i in range(together)]
    seconds = together * true.of_one(together)
    cost.step(names, names, mixed=False, seconds=seconds, now=now)


@given(PARTS, PARTS, CROWDS)
def test_both_parts_are_found_where_crowds_differ(
    each: float, shared: float, crowds: list[int]
) -> None:
    found, true = TickCost(), Cost(each, shared)
    for number, together in enumerate([1, 8, *crowds]):
        tick(found, true, together, number / 4, number)
    cost = found.cost
    assert cost is not None
    for together in (1, 3, 12):
        assert cost.of_one(together) == pytest.approx(true.of_one(together), rel=1e-3)


@given(PARTS, PARTS, st.integers(2, 8))
def test_until_somebody_speaks_the_rehearsal_is_all_there_is(
    each: float, shared: float, crowd: int
) -> None:
    true, cost = Cost(each, shared), TickCost()
    assert cost.cost is None
    cost.rehearsed(Rehearsal(true.of_one(1), true.of_one(crowd), crowd))
    assert cost.cost is not None
    assert cost.cost.each == pytest.approx(each, abs=1e-6)
    assert cost.cost.shared == pytest.approx(shared, abs=1e-6)


@given(PARTS, PARTS, st.floats(0.5, 3.0), st.integers(1, 6))
def test_of_one_crowd_the_speed_is_taken_and_the_rehearsal_says_the_rest(
    each: float, shared: float, speed: float, together: int
) -> None:
    said, cost = Cost(each, shared), TickCost()
    cost.rehearsed(Rehearsal(said.of_one(1), said.of_one(4), 4))
    true = Cost(each * speed, shared * speed)
    for number in range(400):
        tick(cost, true, together, number / 4, number)
    assert cost.cost is not None
    for other in (1, 2, 4):
        assert cost.cost.of_one(other) == pytest.approx(true.of_one(other), rel=0.2)


@given(PARTS, st.floats(1.0, 3.0), st.integers(1, 6))
def test_slower_ticks_never_make_a_lower_cost(each: float, factor: float, together: int) -> None:
    costs = []
    for speed in (1.0, factor):
        cost = TickCost()
        cost.rehearsed(Rehearsal(each, each / 2, 4))
        for number in range(20):
            tick(cost, Cost(each * speed, 0.0), together, number / 4, number)
        assert cost.cost is not None
        costs.append(cost.cost.of_one(together))
    assert costs[1] >= costs[0] * (1 - 1e-9)


def test_a_hiccup_is_not_the_rule() -> None:
    cost = TickCost()
    for number in range(50):
        tick(cost, Cost(0.1, 0.0), 1, number / 4, number)
    tick(cost, Cost(60.0, 0.0), 1, 60.0)  # the machine was stopped
    assert cost.cost is not None
    assert cost.cost.of_one(1) < 0.1 * (1 + WORST / 40)
    for number in range(200):
        tick(cost, Cost(0.5, 0.0), 1, 60 + number / 4, number)
    assert cost.cost.of_one(1) == pytest.approx(0.5, rel=0.2), "but it may become one"


def test_a_tick_of_many_steps_costs_its_share_of_each() -> None:
    cost = TickCost()
    cost.step(["a"], [], mixed=False, seconds=0.3, now=0.3)
    cost.step(["a", "b"], ["a"], mixed=False, seconds=0.2, now=0.5)
    cost.step(["b"], ["b"], mixed=False, seconds=0.2, now=0.7)
    assert cost.cost is not None
    # a: 0.3 + 0.1 with 1.5 of them on average, b: 0.1 + 0.2.
    assert cost.cost.of_one(1.5) == pytest.approx((0.4 + 0.3) / 2, rel=1e-3)


def test_files_beside_ticks_and_ticks_that_were_dropped_say_nothing() -> None:
    cost = TickCost()
    tick(cost, Cost(0.1, 0.0), 1, 0.1)
    cost.step(["a"], [], mixed=True, seconds=9.0, now=9.1)
    cost.step(["a"], ["a"], mixed=False, seconds=9.0, now=18.1)
    cost.step(["b"], [], mixed=False, seconds=9.0, now=27.1)
    cost.step([], [], mixed=False, seconds=9.0, now=36.1)  # b was dropped meanwhile
    cost.step(["b"], ["b"], mixed=False, seconds=0.1, now=36.2)
    assert cost.cost is not None and cost.cost.of_one(1) == pytest.approx(0.1)


def test_who_is_idle_does_not_forget() -> None:
    cost = TickCost()
    cost.rehearsed(Rehearsal(0.1, 0.1, 4))
    for number in range(200):
        tick(cost, Cost(0.3, 0.0), 1, number / 4, number)
    before = cost.cost
    tick(cost, Cost(0.3, 0.0), 1, 100_000.0)
    assert before is not None and cost.cost is not None
    assert cost.cost.of_one(1) == pytest.approx(before.of_one(1), rel=0.01)
