"""The noise: a function of (seed, position, token), Gumbel distributed, never infinite."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lookhear.kernels import sampling_noise
from lookhear.kernels.sampling_noise import NOISE_RANGE, draw, gumbel

INT64 = st.integers(-(2**63), 2**63 - 1)


@settings(max_examples=100, deadline=None)
@given(INT64, st.integers(0, 2**40))
def test_noise_is_finite_and_a_function_of_its_three_keys(seed: int, position: int) -> None:
    tokens = torch.arange(500)
    noise = gumbel(torch.tensor(seed), torch.tensor(position), tokens)
    assert noise.isfinite().all()
    assert (noise.max() - noise.min()).item() < NOISE_RANGE
    few = torch.tensor([499, 3, 250])
    assert torch.equal(gumbel(torch.tensor(seed), torch.tensor(position), few), noise[few])


@pytest.mark.parametrize("bits", [0, -1])
def test_a_uniform_draw_is_never_0_or_1(bits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling_noise, "_mix", lambda x: torch.full_like(x, bits))
    noise = gumbel(torch.tensor(0), torch.tensor(0), torch.tensor([0]))
    assert -3.63 < noise.item() < 36.75
    assert 36.75 + 3.63 < NOISE_RANGE


def test_noise_has_its_distribution_along_every_key() -> None:
    count = 20_000
    zero, many = torch.zeros(1, dtype=torch.int64), torch.arange(count)
    for keys in ((many, zero, zero), (zero, many, zero), (zero, zero, many)):
        levels = torch.exp(-torch.exp(-gumbel(*keys))).sort().values  # uniform, if all is well
        distance = (levels - (torch.arange(count) + 0.5) / count).abs().max().item()
        assert distance < 1.63 / count**0.5  # Kolmogorov and Smirnov at 1 %
    # Neighbours along any key know nothing of each other.
    table = gumbel(torch.arange(60)[:, None, None], torch.arange(60)[:, None], torch.arange(60))
    for axis in range(3):
        pairs = torch.stack([table.roll(1, axis).flatten(), table.flatten()])
        assert abs(torch.corrcoef(pairs)[0, 1].item()) < 0.01  # 4.6 standard deviations


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([0.05, 1.0, 20.0, 200.0]))
def test_what_the_noise_cannot_reach_is_left_out_without_a_difference(
    seed: int, spread: float
) -> None:
    scores = torch.randn(2, 400, generator=torch.Generator().manual_seed(seed)) * spread
    scores[0, :200] = -torch.inf
    seeds, positions = torch.tensor([seed, 1]), torch.tensor([5, seed])
    noise = gumbel(seeds[:, None], positions[:, None], torch.arange(400))
    assert torch.equal(draw(scores, seeds, positions), (scores + noise.float()).argmax(-1))


def test_a_row_without_a_score_gets_some_token_and_the_others_theirs() -> None:
    scores = torch.zeros(3, 50)
    scores[0], scores[1, 7] = -torch.inf, torch.nan
    seeds, positions = torch.tensor([1, 2, 3]), torch.tensor([0, 0, 0])
    tokens = draw(scores, seeds, positions)
    assert ((tokens >= 0) & (tokens < 50)).all()
    assert tokens[2] == draw(scores[2:], seeds[2:], positions[2:])[0]
