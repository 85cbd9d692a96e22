"""The stages against plain numpy, and against transformers' logits processors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor
from transformers.generation import logits_process

from lookhear.kernels import sampling_stages as stages

FEW = settings(max_examples=60, deadline=None)
# Whole and half numbers: many ties, and probabilities far from every boundary drawn below.
GRID = st.integers(-8, 8).map(lambda i: i / 2)
ROWS = st.integers(1, 30).flatmap(
    lambda vocab: st.lists(st.lists(GRID, min_size=vocab, max_size=vocab), min_size=1, max_size=4)
)


def in_place(stage: Callable[..., None], scores: Tensor, *arguments: object) -> Tensor:
    scores = scores.clone()
    stage(scores, *arguments)
    return scores


def probabilities(row: NDArray[np.float64]) -> NDArray[np.float64]:
    raised = np.exp(row - row.max())
    return np.asarray(raised / raised.sum())


@FEW
@given(ROWS, st.data())
def test_top_k_keeps_the_best_and_what_equals_the_last_of_them(
    table: list[list[float]], data: st.DataObject
) -> None:
    scores, vocab = torch.tensor(table), len(table[0])
    top_k = [data.draw(st.integers(1, vocab)) for _ in table]
    kept = in_place(stages.keep_top_k_, scores, torch.tensor(top_k), max(top_k))
    for row, k, result in zip(table, top_k, kept.tolist(), strict=True):
        floor = sorted(row, reverse=True)[k - 1]
        assert result == [x if x >= floor else -np.inf for x in row]
        assert sum(x > -np.inf for x in result) >= k


@FEW
@given(ROWS, st.data(), st.sampled_from([1024, 1, 3]))
def test_top_p_keeps_a_token_if_those_above_it_are_not_enough(
    table: list[list[float]], data: st.DataObject, nucleus: int
) -> None:
    top_p = [data.draw(st.sampled_from([0.0, 0.013, 0.31, 0.77, 0.973, 0.9971])) for _ in table]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stages, "_NUCLEUS", nucleus)  # small: the whole row must be sorted after all
        kept = in_place(
            stages.keep_top_p_, torch.tensor(table), torch.tensor(top_p, dtype=torch.float64)
        )
    for values, p, result in zip(table, top_p, kept.tolist(), strict=True):
        row = np.array(values)
        share = probabilities(row)
        above = np.array([share[row > x].sum() for x in row])
        if np.abs(above - p)[above > 0].min(initial=1.0) < 1e-5:
            continue  # float32 may decide either way
        inside = (above < p) | (row == row.max())
        assert result == np.where(inside, row, -np.inf).tolist()


@FEW
@given(ROWS, st.data())
def test_min_p_is_relative_to_the_best(table: list[list[float]], data: st.DataObject) -> None:
    min_p = [data.draw(st.sampled_from([0.0, 0.003, 0.05, 0.4, 1.0])) for _ in table]
    kept = in_place(stages.keep_min_p_, torch.tensor(table), torch.tensor(min_p))
    for values, least, result in zip(table, min_p, kept.tolist(), strict=True):
        share = probabilities(np.array(values))
        inside = share >= least * share.max() * (1 - 1e-6)
        assert result == np.where(inside, values, -np.inf).tolist()


def test_the_cuts_agree_with_transformers() -> None:
    scores = torch.randn(5, 300, generator=torch.Generator().manual_seed(0)) * 3
    ids: Any = torch.zeros(5, 1, dtype=torch.int64)
    for k in (1, 7, 299):
        expected = logits_process.TopKLogitsWarper(k)(ids, scores)
        assert torch.equal(in_place(stages.keep_top_k_, scores, torch.full((5,), k), k), expected)
    for p in (0.1, 0.5, 0.95, 0.9999):
        expected = logits_process.TopPLogitsWarper(p)(ids, scores)
        given_p = torch.full((5,), p, dtype=torch.float64)
        assert torch.equal(in_place(stages.keep_top_p_, scores, given_p), expected)
    for p in (0.01, 0.3):
        expected = logits_process.MinPLogitsWarper(p)(ids, scores)
        assert torch.equal(in_place(stages.keep_min_p_, scores, torch.full((5,), p)), expected)
    expected = logits_process.TemperatureLogitsWarper(0.7)(ids, scores).softmax(-1)
    torch.testing.assert_close(stages.temper(scores, torch.full((5,), 0.7)).softmax(-1), expected)


def test_the_repetition_penalty_agrees_with_transformers() -> None:
    scores = torch.randn(2, 20, generator=torch.Generator().manual_seed(0))
    ids = torch.tensor([[1, 5, 5, 19], [0, 1, 2, 3]])
    expected = logits_process.RepetitionPenaltyLogitsProcessor(1.3)(ids, scores)
    places = torch.tensor([1, 5, 19, 20, 21, 22, 23])
    penalised = in_place(stages.penalise_repeats_, scores, places, torch.full((7,), 1.3))
    torch.testing.assert_close(penalised, expected, rtol=0, atol=0)


def test_the_masks_agree_with_transformers() -> None:
    scores = torch.randn(2, 8, generator=torch.Generator().manual_seed(0))
    expected = logits_process.SuppressTokensLogitsProcessor([1, 6])(torch.zeros(2, 1), scores)
    places = torch.tensor([1, 6, 9, 14])
    assert torch.equal(
        in_place(stages.add_, scores, places, torch.full((4,), -torch.inf)), expected
    )
    only = in_place(stages.allow_only_, scores, torch.tensor([1]), torch.tensor([8, 15]))
    assert torch.equal(only[0], scores[0])
    assert only[1].isfinite().nonzero().flatten().tolist() == [0, 7]
    assert torch.equal(only[1, [0, 7]], scores[1, [0, 7]])


def test_no_stage_hides_a_nan_or_spreads_it() -> None:
    scores = torch.randn(3, 12, generator=torch.Generator().manual_seed(0))
    broken = scores.clone()
    broken[1, 4] = torch.nan
    half = torch.full((3,), 0.5)
    for stage, arguments in (
        (stages.allow_only_, (torch.tensor([1, 2]), torch.tensor([12, 26]))),
        (stages.add_, (torch.tensor([16, 17]), torch.full((2,), -torch.inf))),
        (stages.penalise_repeats_, (torch.tensor([16, 17]), torch.full((2,), 2.0))),
        (stages.keep_min_p_, (half,)),
        (stages.keep_top_k_, (torch.tensor([3, 2, 1]), 3)),
        (stages.keep_top_p_, (half.double(),)),
    ):
        result = in_place(stage, broken, *arguments)
        assert result.isnan().any(dim=1).tolist() == [False, True, False]
        assert torch.equal(result[[0, 2]], in_place(stage, scores, *arguments)[[0, 2]])


def test_the_lowest_temperature_overflows_nothing() -> None:
    scores = torch.tensor([[100.0, 100.0, 99.0], [-3e38, -3e38, -torch.inf]])
    cold = stages.temper(scores, torch.tensor([1e-6, 1e-6]))
    assert cold.tolist() == [[0.0, 0.0, pytest.approx(-1e6)], [0.0, 0.0, -np.inf]]


def test_the_nucleus_of_a_flat_row_is_found_beyond_the_first_thousand() -> None:
    scores = torch.linspace(0, -1e-3, 5000).expand(2, -1).contiguous()
    stages.keep_top_p_(scores, torch.tensor([0.9, 0.1], dtype=torch.float64))
    counts = scores.isfinite().sum(-1).tolist()
    assert counts == [pytest.approx(4500, abs=5), pytest.approx(500, abs=5)]
