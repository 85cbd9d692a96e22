"""Tokens out of scores, and the noise that draws them: a function of (seed, position, token),
Gumbel distributed, never infinite."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lookhear.kernels import greedy, sample, sampling, token_logprobs, top_logprobs
from lookhear.kernels.sampling import NOISE_RANGE, draw, gumbel

INT64 = st.integers(-(2**63), 2**63 - 1)


def test_greedy_with_suppressed_tokens() -> None:
    logits = torch.tensor([[1.0, 3.0, 2.0], [0.0, 0.0, -1.0]])
    tokens, logprobs = greedy(logits)
    assert tokens.tolist() == [1, 0]
    expected = logits.log_softmax(-1)[[0, 1], [1, 0]]
    torch.testing.assert_close(logprobs, expected)
    mask = torch.tensor([[0.0, -torch.inf, 0.0], [-torch.inf, 0.0, 0.0]])
    tokens, logprobs = greedy(logits, mask)
    assert tokens.tolist() == [2, 1]
    expected = (logits + mask).log_softmax(-1)[[0, 1], [2, 1]]
    torch.testing.assert_close(logprobs, expected)
    assert greedy(logits, torch.tensor([0.0, -torch.inf, -torch.inf]))[0].tolist() == [0, 0]
    assert logits.isfinite().all()


def test_sampling_depends_on_seed_and_position_not_on_the_batch() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(6, 50, generator=generator)
    temperature = torch.tensor([1.0, 0.7, 0.0, 1.0, 2.0, 1.0])
    seeds, positions = torch.tensor([1, 2, 3, 1, 5, -6]), torch.tensor([0, 9, 9, 1, 0, 2**40])
    tokens, logprobs = sample(logits, temperature, seeds, positions)
    assert tokens[2] == logits[2].argmax()
    torch.testing.assert_close(logprobs, logits.log_softmax(-1).gather(1, tokens[:, None])[:, 0])
    for i in range(6):
        alone, _ = sample(
            logits[i : i + 1], temperature[i : i + 1], seeds[i : i + 1], positions[i : i + 1]
        )
        assert alone[0] == tokens[i]


def test_sampling_follows_the_distribution() -> None:
    probabilities = torch.tensor([0.5, 0.3, 0.15, 0.05])
    count = 20_000
    tokens, _ = sample(
        probabilities.log().expand(count, 4),
        torch.ones(count),
        torch.full((count,), 7),
        torch.arange(count),
    )
    observed = torch.bincount(tokens, minlength=4) / count
    assert (observed - probabilities).abs().max() < 0.02  # five standard deviations: 0.018


def test_suppressed_tokens_are_never_drawn() -> None:
    mask = torch.tensor([-torch.inf, 0.0, -torch.inf, 0.0])
    count = 500
    tokens, logprobs = sample(
        torch.zeros(count, 4),
        torch.full((count,), 5.0),
        torch.arange(count),
        torch.zeros(count).long(),
        mask,
    )
    assert set(tokens.tolist()) == {1, 3}
    torch.testing.assert_close(logprobs, torch.full((count,), 0.5).log())


def test_logprobs() -> None:
    logits = torch.randn(3, 20, generator=torch.Generator().manual_seed(0))
    expected = logits.log_softmax(-1)
    tokens, best = top_logprobs(logits, 4)
    torch.testing.assert_close(best, expected.topk(4).values)
    assert torch.equal(tokens, expected.topk(4).indices)
    torch.testing.assert_close(token_logprobs(logits, tokens[:, 2]), best[:, 2])


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 3), st.sampled_from([1, 255, 256, 257, 700, 768]), st.integers(0, 10_000))
def test_greedy_takes_the_first_of_equals_at_any_size(n: int, vocab: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randint(0, 20, (n, vocab), generator=generator).float()
    tokens, logprobs = greedy(logits)
    for row in range(n):
        assert tokens[row] == logits[row].tolist().index(logits[row].max())
    torch.testing.assert_close(logprobs, logits.max(-1).values - logits.logsumexp(-1))


def test_a_nan_is_not_hidden() -> None:
    logits = torch.zeros(2, 600)
    logits[1, 500] = torch.nan
    _, logprobs = greedy(logits)
    assert logprobs.isnan().tolist() == [False, True]


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
    monkeypatch.setattr(sampling, "_mix", lambda x: torch.full_like(x, bits))
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
