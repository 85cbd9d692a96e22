"""The search for the most sessions, on curves whose answer is known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookhear.bench.capacity import (
    BY_BOUND,
    BY_GENERATOR,
    BY_MOST,
    Bounds,
    Probe,
    search,
    verdict,
)
from lookhear.bench.measures.metrics import summary


def holds_up_to(limit: int) -> Callable[[int], Probe]:
    return lambda sessions: Probe(sessions, sessions <= limit)


@given(st.integers(0, 300), st.integers(1, 256))
def test_a_clear_edge_is_found_exactly_and_soon(limit: int, most: int) -> None:
    found = search(holds_up_to(limit), most)
    assert found.sessions == min(limit, most)
    assert found.limited_by == (BY_MOST if limit >= most else BY_BOUND)
    asked = [probe.sessions for probe in found.probes]
    assert len(asked) == len(set(asked)) <= 2 * most.bit_length() + 1
    assert max(asked) <= most


@given(st.integers(1, 200), st.floats(0.0, 0.5))
def test_a_tolerance_leaves_at_most_that_open(limit: int, tolerance: float) -> None:
    found = search(holds_up_to(limit), 256, tolerance)
    above = min(probe.sessions for probe in found.probes if not probe.holds)
    assert found.sessions <= limit < above
    assert above - found.sessions <= max(1, tolerance * found.sessions)


@given(st.lists(st.booleans(), min_size=64, max_size=64))
def test_the_answer_was_shown_to_hold_whatever_the_noise(curve: list[bool]) -> None:
    found = search(lambda sessions: Probe(sessions, curve[sessions - 1]), 64)
    assert found.sessions == 0 or curve[found.sessions - 1]
    if found.limited_by == BY_BOUND:
        assert any(not p.holds and p.sessions > found.sessions for p in found.probes)


def test_a_probe_that_says_nothing_is_repeated_once_and_then_limits() -> None:
    def probe(sessions: int) -> Probe:
        return Probe(sessions, None if sessions > 3 else True)

    found = search(probe, 64)
    assert found.sessions == 3 and found.limited_by == BY_GENERATOR
    assert [p.sessions for p in found.probes] == [1, 2, 4, 4, 3]


def test_a_late_generator_is_forgiven_if_it_was_a_hiccup() -> None:
    answers = iter([True, None, True, False, True])
    found = search(lambda sessions: Probe(sessions, next(answers)), 8)
    assert [p.sessions for p in found.probes] == [1, 2, 2, 4, 3]
    assert found.sessions == 3 and found.limited_by == BY_BOUND


def test_no_session_at_all() -> None:
    assert search(holds_up_to(0), 8).sessions == 0
    with pytest.raises(ValueError, match="at least one"):
        search(holds_up_to(1), 0)


def numbers(**changes: Any) -> dict[str, Any]:
    good: dict[str, Any] = {
        "commit_lag_s": summary([0.5, 1.0]),
        "settled_lag_s": summary([0.1]),
        "commit_lag_growth_s_per_minute": 0.01,
        "settled_lag_growth_s_per_minute": None,
        "utterance": {"final_s": summary([0.9]), "final_shown_s": summary([0.4])},
        "wer_all": 0.05,
        "drops": 0,
        "generator_late_s": 0.02,
    }
    return good | changes


def test_a_good_probe_holds() -> None:
    assert verdict(4, numbers(), 0.041, Bounds()) == Probe(4, True, (), numbers())
    assert verdict(1, numbers(wer_all=0.9), None, Bounds()).holds  # it is the measure itself


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"commit_lag_s": summary([2.1])}, "p95 commit lag 2.10 s > 2 s"),
        ({"commit_lag_s": summary([])}, "no commit lag"),
        ({"utterance": {"final_s": summary([3.0])}}, "p95 commit final text 3.00 s > 2 s"),
        ({"commit_lag_growth_s_per_minute": 0.6}, "lag grows 0.60 s per minute"),
        ({"wer_all": 0.0511}, "WER 5.1%, alone 4.0%"),
        ({"drops": 2}, "2 sessions dropped"),
    ],
)
def test_every_bound_is_kept(changes: dict[str, Any], reason: str) -> None:
    probe = verdict(4, numbers(**changes), 0.04, Bounds())
    assert probe.holds is False and probe.reasons == (reason,)


def test_settled_text_has_its_own_numbers() -> None:
    slow = numbers(commit_lag_s=summary([5.0]))
    assert verdict(4, slow, None, Bounds()).holds is False
    assert verdict(4, slow, None, Bounds(settled=True)).holds


def test_a_late_generator_says_nothing_of_the_server() -> None:
    late = verdict(4, numbers(generator_late_s=0.7, drops=1), None, Bounds())
    assert late.holds is None and late.reasons[0] == "the generator was 0.70 s late"
