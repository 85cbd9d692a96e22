"""Kernels over vocabularies against their twins on the CPU: the same tokens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from lookhear.kernels import allow_bits_, sampling, sampling_stages
from lookhear.kernels.triton import grammar_mask
from lookhear.kernels.triton import sampling as ours
from lookhear.kernels.triton import sampling_stages as our_stages

pytestmark = pytest.mark.gpu

Sized = Callable[[int, int], int]
INF = float("inf")


def scores(seed: int, *shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)) * 3.0


@pytest.mark.parametrize("vocab", [5, 123, 1023, 51_866, 151_936])
def test_greedy_and_drawn(vocab: int, device: torch.device, sized: Sized, errors: Any) -> None:
    vocab = vocab if vocab < 2000 else sized(vocab, 4500)
    rows = sized(64, 2)
    x = scores(0, rows, vocab)
    x[1, ::2] = -INF
    x[0, -2:] = 30.0  # equals: the first wins
    there = x.to(device)
    tokens = ours.argmax(there)
    assert torch.equal(tokens.cpu(), sampling.argmax(x))
    exact = torch.log_softmax(x.double(), -1).gather(-1, tokens.cpu()[:, None])[:, 0]
    errors.close(ours.token_logprobs(there, tokens).cpu(), exact, 1e-5)
    seeds, positions = torch.arange(rows) * 2**57, torch.arange(rows) * 1001
    drawn = ours.draw(there, seeds.to(device), positions.to(device))
    assert torch.equal(drawn.cpu(), sampling.draw(x, seeds, positions))


@pytest.mark.parametrize("vocab", [123, 51_866, 151_936])
def test_stages(vocab: int, device: torch.device, sized: Sized, errors: Any) -> None:
    vocab = vocab if vocab < 2000 else sized(vocab, 3000)
    rows = sized(64, 2)
    x = scores(1, rows, vocab)
    places = torch.randperm(rows * vocab, generator=torch.Generator().manual_seed(0))[:100]
    amounts, penalties = scores(2, 100), torch.full((100,), 1.3)
    there, here = x.to(device), x.clone()
    for stages, target in ((our_stages, there), (sampling_stages, here)):
        move = [value.to(target.device) for value in (places, amounts, penalties)]
        stages.add_(target, move[0], move[1])
        stages.penalise_repeats_(target, move[0], move[2])
    errors.close(there.cpu(), here, 1e-6)
    temperature = torch.linspace(0.1, 2.0, rows)
    cold = our_stages.temper(there, temperature.to(device))
    errors.close(cold.cpu(), sampling_stages.temper(here, temperature), 1e-5)
    # From here on both have the very same numbers: the tokens kept have to be the same.
    here = cold.cpu()
    for name, value in (
        ("keep_min_p_", torch.linspace(0.0, 0.3, rows)),
        ("keep_top_k_", torch.arange(rows) % min(vocab, 999) + 1),
        ("keep_top_p_", torch.linspace(0.1, 0.99, rows, dtype=torch.float64)),
    ):
        more = (int(value.max()),) if name == "keep_top_k_" else ()
        kept, expected = cold.clone(), here.clone()
        getattr(our_stages, name)(kept, value.to(device), *more)
        getattr(sampling_stages, name)(expected, value, *more)
        differs = (kept.cpu() > -INF) != (expected > -INF)
        # At an edge of equal sums the last place of a sum may decide.
        assert int(differs.sum()) <= (0 if name == "keep_top_k_" else rows // 8), name


def test_grammar(device: torch.device, sized: Sized) -> None:
    vocab = sized(151_936, 3000)
    x = scores(3, 8, vocab)
    words = torch.randint(
        -(2**31), 2**31, (3, -(-vocab // 32)), generator=torch.Generator().manual_seed(0)
    ).int()
    rows, there = torch.tensor([6, 0, 3]), x.to(device)
    grammar_mask.allow_bits_(there, rows.to(device), words.to(device))
    allow_bits_(x, rows, words)
    assert torch.equal(there.cpu(), x)
