"""The length of drafts: none where they lose, long ones where they are right, found out again."""

from __future__ import annotations

import pytest

from lookhear.engine.drafts.pace import LONGEST, MARGIN, Experience, Pace, PassCosts

FREE = PassCosts((1, 8, 16), (1.0, 1.0, 1.0))  # a pass waits for memory, whatever it reads
STEEP = PassCosts((1, 8, 16), (1.0, 8.0, 16.0))  # every token costs as much as the first
REAL = PassCosts((1, 2, 3, 8, 16), (1.0, 1.1, 2.2, 2.4, 2.9))


def steps(costs: PassCosts, chance: float, rows: int = 1, count: int = 2_000) -> tuple[float, int]:
    """Tokens per second of one request whose drafts are right so often, times what plain decoding
    makes; and how many steps had a draft. Every token counts as drawn in its turn: no chance."""
    pace = Pace(costs)
    spent, said, drafted, owed = 0.0, 0, 0, 0.0
    for _ in range(count):
        length = pace.length(rows)
        accepted = 0
        while accepted < length:
            owed += chance
            if owed < 1.0:
                break
            owed -= 1.0
            accepted += 1
        spent += costs.of(rows * (1 + length))
        said += 1 + accepted
        drafted += length > 0
        pace.learn(length, accepted)
    return said / spent * costs.of(rows), drafted


@pytest.mark.parametrize("costs", [FREE, STEEP, REAL])
@pytest.mark.parametrize("rows", [1, 4, 16])
def test_drafts_that_are_never_right_cost_next_to_nothing(costs: PassCosts, rows: int) -> None:
    speed, _ = steps(costs, 0.0, rows)
    assert speed >= 0.95


@pytest.mark.parametrize("chance", [0.2, 0.5, 0.8, 0.95])
@pytest.mark.parametrize("costs", [FREE, STEEP, REAL])
def test_whatever_the_chance_it_is_no_slower_than_without(costs: PassCosts, chance: float) -> None:
    speed, _ = steps(costs, chance)
    assert speed >= 0.95


def test_drafts_that_are_right_are_long_and_fast() -> None:
    speed, drafted = steps(REAL, 0.999)
    assert speed > 3.0 and drafted > 1_900


def test_where_every_token_costs_as_much_there_are_no_drafts() -> None:
    assert steps(STEEP, 0.9)[1] == 0


def test_without_costs_they_are_as_long_as_can_be() -> None:
    pace = Pace(None)
    for _ in range(20):
        pace.learn(LONGEST, 0)
    assert pace.length(64) == LONGEST


def test_what_was_wrong_is_tried_again_after_a_while() -> None:
    pace = Pace(REAL)
    assert pace.length(1) > 0
    for _ in range(12):
        pace.learn(8, 0)
    assert pace.length(1) == 0
    waited = 0
    while pace.length(1) == 0:
        pace.learn(0, 0)
        waited += 1
    assert 10 < waited < 200


def test_who_was_wrong_is_asked_in_few_requests_and_who_is_right_in_all() -> None:
    asked = {chance: tried_requests(chance) for chance in (0.0, 0.9)}
    assert 1 <= asked[0.0] <= 10 and asked[0.9] == 100


def tried_requests(chance: float) -> int:
    """Of a hundred requests of one engine, those that had a draft."""
    experience, tried, owed = Experience(), 0, 0.0
    for _ in range(100):
        pace, drafted = Pace(REAL, experience), 0
        for _ in range(20):
            length, accepted = pace.length(1), 0
            while accepted < length and (owed := owed + chance) >= 1.0:
                owed -= 1.0
                accepted += 1
            drafted += length
            pace.learn(length, accepted)
        tried += drafted > 0
    return tried


def test_a_model_that_gets_better_is_found_out() -> None:
    experience = Experience()
    for _ in range(50):
        experience.learn(8, 0)
    assert Pace(REAL, experience).length(1) == 0
    waited = 0
    while (pace := Pace(REAL, experience)).length(1) == 0:
        waited += 1
    assert 5 < waited < 100
    for _ in range(20):
        pace.learn(8, 8)
    assert Pace(REAL, experience).length(1) > 4


def test_costs_lie_on_lines_between_what_was_tried_and_never_fall_below_one_token() -> None:
    costs = PassCosts((1, 4, 8), (2.0, 5.0, 9.0))
    assert [costs.of(n) for n in (1, 2, 4, 6, 8, 12)] == [2.0, 3.0, 5.0, 7.0, 9.0, 13.0]
    noisy = PassCosts((1, 2, 4), (2.0, 1.5, 1.0))
    assert noisy.of(64) == 2.0
    assert MARGIN > 1.0
