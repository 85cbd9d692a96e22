"""Triton's sampling against torch's: the same tokens, and the same sets of tokens kept."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from lookhear.kernels import sampling as twin
from lookhear.kernels import sampling_stages as twin_stages
from lookhear.kernels.triton import sampling, sampling_stages

SHAPES = [(3, 5), (2, 123), (2, 1023), (2, 5000)]
INF = float("inf")
# What a GPU does in silence, numpy mentions.
pytestmark = [
    pytest.mark.filterwarnings("ignore:invalid value"),
    pytest.mark.filterwarnings("ignore:overflow"),
    pytest.mark.filterwarnings("ignore:divide by zero"),
]


def draw(seed: int, *shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)) * 3.0


@pytest.mark.parametrize("shape", SHAPES)
def test_the_best_and_its_probability(shape: tuple[int, int]) -> None:
    x = draw(0, *shape)
    x[0, 3:] = -INF
    tokens = sampling.argmax(x)
    assert torch.equal(tokens, twin.argmax(x))
    torch.testing.assert_close(
        sampling.token_logprobs(x, tokens), twin.token_logprobs(x, tokens), atol=1e-5, rtol=1e-5
    )


def test_the_first_of_equals_is_the_best() -> None:
    x = torch.zeros(3, 5000)
    x[1, [7, 4999]] = 2.0
    x[2] = -INF
    assert sampling.argmax(x).tolist() == [0, 7, 0]


def test_of_no_rows() -> None:
    none = torch.zeros(0, 7)
    index = torch.zeros(0, dtype=torch.int64)
    assert sampling.argmax(none).shape == sampling.token_logprobs(none, index).shape == (0,)
    sampling_stages.keep_top_k_(none, index, 3)


@pytest.mark.parametrize("bad", [float("nan"), INF])
def test_a_broken_row_says_so_and_breaks_no_other(bad: float) -> None:
    x = draw(0, 3, 5000)
    x[1, 4500] = bad
    tokens = sampling.argmax(x)
    assert ((tokens >= 0) & (tokens < 5000)).all()
    logprobs = sampling.token_logprobs(x, tokens)
    assert logprobs.isnan().tolist() == [False, True, False]
    x[1] = -INF
    assert sampling.token_logprobs(x, tokens * 0).isnan().tolist() == [False, True, False]


@pytest.mark.parametrize("shape", SHAPES)
def test_draws_are_those_of_torch(shape: tuple[int, int]) -> None:
    x = draw(1, *shape)
    x[1, :2] = -INF
    for seed in range(3):
        seeds = torch.tensor([seed, 2**63 - 1, -5][: len(x)])
        positions = torch.tensor([seed * 1000, 7, 2**40][: len(x)])
        assert torch.equal(sampling.draw(x, seeds, positions), twin.draw(x, seeds, positions))


@pytest.mark.parametrize("shape", SHAPES)
def test_temperature_and_min_p(shape: tuple[int, int]) -> None:
    x = draw(2, *shape)
    x[0, 1] = -INF
    temperature = torch.tensor([0.3, 1.7, 1.0][: len(x)])
    ours, theirs = (s.temper(x, temperature) for s in (sampling_stages, twin_stages))
    torch.testing.assert_close(ours, theirs)
    min_p = torch.tensor([0.1, 0.0, 1.0][: len(x)])
    sampling_stages.keep_min_p_(ours, min_p)
    twin_stages.keep_min_p_(theirs, min_p)
    assert torch.equal(ours > -INF, theirs > -INF)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("is_coarse", [False, True])
def test_top_k(shape: tuple[int, int], is_coarse: bool) -> None:
    ours = draw(3, *shape)
    if is_coarse:  # many equals, both zeros
        ours = ours.round()
    ours[0, 2] = -INF
    theirs = ours.clone()
    top_k = torch.tensor([1, shape[1] // 2, shape[1]][: len(ours)])
    sampling_stages.keep_top_k_(ours, top_k, shape[1])
    twin_stages.keep_top_k_(theirs, top_k, shape[1])
    assert torch.equal(ours, theirs)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("is_coarse", [False, True])
@pytest.mark.parametrize("top_p", [0.9, 1e-9, 0.0, 1.0])
def test_top_p(shape: tuple[int, int], is_coarse: bool, top_p: float) -> None:
    ours = draw(4, *shape)
    if is_coarse:
        ours = ours.round()
    ours[0, 2] = -INF
    theirs = ours.clone()
    wanted = torch.full((len(ours),), top_p, dtype=torch.float64)
    sampling_stages.keep_top_p_(ours, wanted)
    twin_stages.keep_top_p_(theirs, wanted)
    if top_p == 1.0:  # the last places of the sum decide about what has no weight
        lost = (theirs > -INF) != (ours > -INF)
        assert theirs.softmax(-1)[lost].sum() < 1e-5
    else:
        assert torch.equal(ours, theirs)


def test_cuts_leave_a_nan_where_it_is() -> None:
    x = draw(5, 2, 123)
    x[0, 7] = torch.nan
    alone = x[1:].clone()
    sampling_stages.keep_top_k_(x, torch.tensor([3, 3]), 3)
    sampling_stages.keep_top_k_(alone, torch.tensor([3]), 3)
    assert x[0, 7].isnan() and torch.equal(x[1:], alone)


def test_single_logits() -> None:
    ours = draw(6, 2, 123)
    theirs = ours.clone()
    places = torch.tensor([5, 0, 245, 122])
    amounts = torch.tensor([0.5, -INF, 2.0, -1.0])
    for stages, x in ((sampling_stages, ours), (twin_stages, theirs)):
        stages.add_(x, places, amounts)
        stages.penalise_repeats_(x, places, amounts.abs().clamp(max=2.0))
        stages.add_(x, places[:0], amounts[:0])
    torch.testing.assert_close(ours, theirs)
