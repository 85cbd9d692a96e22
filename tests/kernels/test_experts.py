"""Experts: what a token's sum is made of, and that nobody else matters to it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from lookhear.kernels import ExpertWeights, mixed_experts, pack_experts, route, swiglu

WIDTH, FFN = 20, 12


def draw(seed: int, *shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def stacked(experts: int) -> ExpertWeights:
    gate_up, down = draw(1, experts, 2 * FFN, WIDTH), draw(2, experts, WIDTH, FFN)
    return ExpertWeights(gate_up / WIDTH**0.5, down / FFN**0.5)


def of(weights: ExpertWeights) -> Iterator[tuple[Tensor, Tensor]]:
    return zip(weights.gate_up, weights.down, strict=True)


def expected(x: Tensor, chosen: Tensor, shares: Tensor, weights: ExpertWeights) -> Tensor:
    """The formula, token by token."""
    out = torch.zeros_like(x)
    for token, (experts, parts) in enumerate(zip(chosen.tolist(), shares, strict=True)):
        for expert, share in zip(experts, parts, strict=True):
            inner = swiglu((weights.gate_up[expert] @ x[token])[None])[0]
            out[token] += share * (weights.down[expert] @ inner)
    return out


@pytest.mark.parametrize("tokens", [0, 1, 3, 50])
@pytest.mark.parametrize(("experts", "per_token"), [(1, 1), (4, 4), (9, 2)])
def test_a_token_is_the_weighted_sum_of_its_experts(
    tokens: int, experts: int, per_token: int
) -> None:
    x, weights = draw(0, tokens, WIDTH), stacked(experts)
    chosen, shares = route(x, draw(3, experts, WIDTH), per_token, normalises=True)
    exact = expected(x, chosen, shares, weights)
    packed = pack_experts(of(weights), experts)
    for each in (weights, packed):
        torch.testing.assert_close(
            mixed_experts(x, chosen, shares, each), exact, atol=1e-5, rtol=1e-5
        )


def test_who_else_is_there_does_not_matter() -> None:
    x, weights = draw(0, 30, WIDTH), pack_experts(of(stacked(6)), 6)
    chosen, shares = route(x, draw(3, 6, WIDTH), 3, normalises=False)
    together = mixed_experts(x, chosen, shares, weights)
    for token in range(30):
        mine = slice(token, token + 1)
        alone = mixed_experts(x[mine], chosen[mine], shares[mine], weights)
        torch.testing.assert_close(alone, together[mine], atol=1e-6, rtol=1e-6)


def test_experts_that_nobody_chose_are_not_read() -> None:
    weights = stacked(3)
    weights.gate_up[1] = torch.nan
    weights.down[1] = torch.nan
    chosen = torch.tensor([[0, 2], [2, 0]])
    for each in (weights, pack_experts(of(weights), 3)):
        assert mixed_experts(draw(0, 2, WIDTH), chosen, draw(1, 2, 2), each).isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_route_is_a_softmax_in_float32_over_all_experts(dtype: torch.dtype) -> None:
    x, router = draw(0, 40, WIDTH).to(dtype), draw(1, 10, WIDTH)
    probabilities = (x.float() @ router.T).softmax(-1)
    chosen, shares = route(x, router, 4, normalises=False)
    assert shares.dtype == torch.float32
    torch.testing.assert_close(shares, probabilities.gather(1, chosen))
    assert torch.equal(chosen.sort(-1).values, probabilities.topk(4).indices.sort(-1).values)
    again, normalised = route(x, router, 4, normalises=True)
    assert torch.equal(again, chosen)
    torch.testing.assert_close(normalised, shares / shares.sum(-1, keepdim=True))


@pytest.mark.parametrize("half", [False, True])
def test_bfloat16_stays_close(half: bool) -> None:
    weights = stacked(5)
    short = ExpertWeights(weights.gate_up.bfloat16(), weights.down.bfloat16())
    x = draw(0, 9, WIDTH)
    chosen, shares = route(x, draw(3, 5, WIDTH), 2, normalises=True)
    exact = mixed_experts(x, chosen, shares, weights)
    for each in (short, pack_experts(of(short), 5, half=half)):
        ours = mixed_experts(x.bfloat16(), chosen, shares, each)
        assert ours.dtype == torch.bfloat16
        assert (ours.float() - exact).norm() <= 0.02 * exact.norm()
