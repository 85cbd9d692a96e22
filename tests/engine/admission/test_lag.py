"""The lag that a load makes: what holds of it whatever the numbers are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookhear.engine.admission.lag import INTERVALS, QUANTILE, LagModel, crowds
from lookhear.engine.admission.tick_cost import Cost

SHARES = st.lists(st.floats(0.0, 1.0), max_size=12)
COSTS = st.builds(Cost, st.floats(0.0, 0.5), st.floats(0.0, 0.5))
MODELS = st.builds(
    LagModel,
    evidence=st.floats(0.0, 1.5),
    interval=st.floats(0.05, 1.0),
    rows=st.integers(1, 16),
    queues=st.booleans(),
)
MORE = st.integers(1, 6)


@given(SHARES)
def test_crowds_are_as_likely_as_they_are(shares: list[float]) -> None:
    likely = crowds(shares)
    numbers = np.arange(len(shares) + 1)
    mean = sum(shares)
    assert likely.sum() == pytest.approx(1) and (likely >= 0).all()
    assert likely @ numbers == pytest.approx(mean, abs=1e-9)
    variance = sum(share * (1 - share) for share in shares)
    assert likely @ (numbers - mean) ** 2 == pytest.approx(variance, abs=1e-9)


@given(MODELS, COSTS, SHARES, MORE, st.data())
def test_more_load_is_never_less_lag(
    model: LagModel, cost: Cost, shares: list[float], more: int, data: st.DataObject
) -> None:
    lag = model.lag(cost, crowds(shares), more)
    slower = Cost(cost.each * 1.5, cost.shared * 1.5)
    talkative = [min(1.0, share + data.draw(st.floats(0, 1))) for share in shares]
    assert model.lag(cost, crowds(shares), more + 1) >= lag - 1e-6
    assert model.lag(slower, crowds(shares), more) >= lag - 1e-6
    assert model.lag(cost, crowds(talkative), more) >= lag - 1e-6
    assert model.lag(cost, crowds([*shares, 0.3]), more) >= lag - 1e-6
    assert lag >= model.evidence


@given(MODELS, COSTS, SHARES, st.floats(0.1, 5.0))
def test_places_are_as_many_as_keep_within_the_bound(
    model: LagModel, cost: Cost, shares: list[float], bound: float
) -> None:
    others, limit = crowds(shares), 50
    places = model.places(bound, cost, others, limit)
    assert 0 <= places <= limit
    if places:
        assert model.lag(cost, others, places) <= bound + 1e-6
    if places < limit:
        assert model.lag(cost, others, places + 1) >= bound - 1e-6


@given(SHARES, st.floats(1e-7, 1e-5), st.integers(1, 64))
def test_where_ticks_are_cheap_nobody_is_refused(
    shares: list[float], seconds: float, rows: int
) -> None:
    model = LagModel(evidence=1.0, interval=0.25, rows=rows)
    assert model.places(2.0, Cost(seconds, seconds), crowds(shares), 1024) == 1024


@given(COSTS, st.integers(1, 64), st.integers(1, 16))
def test_as_many_are_worked_on_together_as_is_best_for_the_lag(
    cost: Cost, speakers: int, rows: int
) -> None:
    """Against every other number."""
    model = LagModel(evidence=0.0, interval=0.0, rows=rows, queues=True)

    def waiting(together: float) -> float:
        rounds = speakers * (cost.each + cost.shared / together)
        return float(INTERVALS * rounds + together * cost.each + cost.shared)

    [chosen] = model.together(cost, np.array([float(speakers)]))
    assert 1 <= chosen <= min(speakers, rows)
    assert waiting(chosen) <= min(map(waiting, range(1, min(speakers, rows) + 1))) + 1e-9


@given(MODELS, COSTS, SHARES, MORE, st.integers(0, 2**31))
def test_as_many_words_keep_within_it_as_it_says(
    model: LagModel, cost: Cost, shares: list[float], more: int, seed: int
) -> None:
    """Against drawn ones: who speaks, and when between two ticks a word is said."""
    random, many = np.random.default_rng(seed), 20_000
    speaking = more + (random.random((many, len(shares))) < shares).sum(axis=1)
    together = model.together(cost, speaking.astype(float))
    rounds = speaking * (cost.each + cost.shared / together)
    service = together * cost.each + cost.shared if model.queues else rounds
    waits = random.random((2, many)).sum(axis=0) * np.maximum(model.interval, rounds)
    lags = model.evidence + service + waits
    lag = model.lag(cost, crowds(shares), more)
    assert (lags <= lag + 1e-6).mean() >= QUANTILE - 0.01
    assert (lags <= lag - 1e-3).mean() <= QUANTILE + 0.01
