from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lookhear.engine.whisper.token_times import median_filter, token_times, warp


def cheapest(cost: np.ndarray) -> float:
    """Cost of the best path, cell by cell."""
    rows, columns = cost.shape
    total = np.full((rows + 1, columns + 1), np.inf)
    total[0, 0] = 0
    for i in range(1, rows + 1):
        for j in range(1, columns + 1):
            before = min(total[i - 1, j - 1], total[i - 1, j], total[i, j - 1])
            total[i, j] = cost[i - 1, j - 1] + before
    return float(total[rows, columns])


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 8), st.integers(1, 12), st.integers(0, 10_000))
def test_warp_finds_the_cheapest_path(rows: int, columns: int, seed: int) -> None:
    cost = np.random.default_rng(seed).normal(size=(rows, columns))
    i, j = warp(cost)
    assert (i[0], j[0], i[-1], j[-1]) == (0, 0, rows - 1, columns - 1)
    steps = set(zip(np.diff(i).tolist(), np.diff(j).tolist(), strict=True))
    assert steps <= {(0, 1), (1, 0), (1, 1)}
    assert cost[i, j].sum() == pytest.approx(cheapest(cost))


def test_the_same_path_as_transformers() -> None:
    from transformers.models.whisper.generation_whisper import (
        _dynamic_time_warping,
        _median_filter,
    )

    for seed, (rows, columns) in enumerate([(1, 1), (1, 9), (6, 1), (12, 80), (30, 20)]):
        cost = np.random.default_rng(seed).normal(size=(rows, columns)).round(1)  # with ties
        theirs = _dynamic_time_warping(cost)
        for ours, reference in zip(warp(cost), theirs, strict=True):
            assert ours.tolist() == reference.tolist()
        x = cost.astype(np.float32)[None]
        filtered = _median_filter(torch.from_numpy(x)[None], 7)[0].numpy()
        np.testing.assert_array_equal(median_filter(x, 7), filtered)


def test_median_filter_reflects_at_the_edges() -> None:
    x = np.array([[5.0, 1.0, 2.0, 9.0, 3.0]], dtype=np.float32)
    assert median_filter(x, 3).tolist() == [[1.0, 2.0, 2.0, 3.0, 9.0]]
    assert median_filter(x[:, :1], 3).tolist() == [[5.0]]


def test_times_follow_the_attention() -> None:
    # Rows: start, language, task, no timestamps, four text tokens, end. The row before a token
    # looks at where the token is.
    spans = [(10, 40), (40, 60), (60, 100), (100, 130)]
    weights = np.full((2, 9, 200), 1e-3, dtype=np.float32)
    for index, (start, stop) in enumerate(spans):
        weights[:, 3 + index, start:stop] = 1.0 / (stop - start)
    weights[:, 7, 130:] = 1.0 / 70
    starts, ends = token_times(weights, 4, 4)
    assert starts[1:].tolist() == pytest.approx([0.8, 1.2, 2.0], abs=0.05)
    assert ends.tolist() == pytest.approx([0.8, 1.2, 2.0, 2.6], abs=0.05)
    assert (np.diff(starts) >= 0).all() and (starts <= ends).all()


def test_no_text_has_no_times() -> None:
    starts, ends = token_times(np.ones((1, 5, 20), dtype=np.float32), 4, 0)
    assert starts.shape == ends.shape == (0,)
