"""How long small messages gather: longer for more sessions and for a late loop, never for long."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookhear.gateway.sockets.gathering import MOST, Gathering

INTERVAL = 0.05
LAGS = st.lists(st.floats(0.0, 10.0), max_size=50)


def after(lags: list[float]) -> Gathering:
    gathering = Gathering(INTERVAL)
    for lag in lags:
        gathering.observe(lag)
    return gathering


@given(LAGS, st.integers(1, 2000), st.integers(0, 2000))
def test_more_sessions_never_gather_for_less(lags: list[float], few: int, more: int) -> None:
    gathering = after(lags)
    assert 0.0 < gathering.seconds(few) <= gathering.seconds(few + more) <= MOST


@given(LAGS, st.floats(0.0, 10.0), st.integers(1, 2000))
def test_a_later_loop_never_gathers_for_less(lags: list[float], lag: float, count: int) -> None:
    assert after([*lags, lag]).seconds(count) >= after([*lags, 0.0]).seconds(count)


def test_a_lone_session_hardly_waits_on_a_loop_that_is_on_time() -> None:
    assert after([0.001] * 100).seconds(1) <= 0.01


def test_a_loop_that_is_always_late_gathers_for_longest_and_one_that_recovered_does_not() -> None:
    gathering = after([0.02] * 200)
    assert gathering.seconds(1) == MOST
    for _ in range(200):
        gathering.observe(0.0)
    assert gathering.seconds(1) == pytest.approx(after([]).seconds(1))
