"""Experts by groups against torch's, under the interpreter."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from lookhear.kernels import ExpertWeights
from lookhear.kernels.experts import mixed_experts as chosen_mixed_experts
from lookhear.kernels.experts import pack_experts
from lookhear.kernels.triton import experts as triton_experts
from lookhear.kernels.triton.configs import Tile, trying

DTYPES = [torch.float32, torch.bfloat16, torch.float16]
TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 2**-6, torch.float16: 2**-9}
torch_mixed_experts = chosen_mixed_experts.__wrapped__  # type: ignore[attr-defined]


def draw(seed: int, *shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def layer(experts: int, width: int, ffn: int, dtype: torch.dtype) -> ExpertWeights:
    gate_up = draw(1, experts, 2 * ffn, width) / width**0.5
    return ExpertWeights(gate_up.to(dtype), (draw(2, experts, width, ffn) / ffn**0.5).to(dtype))


def drawn_routes(tokens: int, experts: int, per_token: int) -> tuple[Tensor, Tensor]:
    chosen = draw(3, tokens, experts).argsort(-1)[:, :per_token].contiguous()
    return chosen, draw(4, tokens, per_token).softmax(-1)


def check(x: Tensor, chosen: Tensor, shares: Tensor, weights: ExpertWeights) -> None:
    exact = ExpertWeights(weights.gate_up.float(), weights.down.float())
    ours = triton_experts.mixed_experts(x, chosen, shares, weights)
    theirs = torch_mixed_experts(x.float(), chosen, shares, exact)
    assert ours.dtype == x.dtype and ours.shape == theirs.shape
    tolerance = TOLERANCE[x.dtype]
    torch.testing.assert_close(ours.float(), theirs, atol=2 * tolerance, rtol=tolerance)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("tokens", "experts", "per_token", "width", "ffn"),
    [(1, 1, 1, 5, 3), (1, 8, 3, 64, 24), (7, 5, 2, 70, 33), (40, 3, 2, 16, 65), (3, 4, 4, 130, 7)],
)
def test_mixed_experts(
    tokens: int, experts: int, per_token: int, width: int, ffn: int, dtype: torch.dtype
) -> None:
    x = draw(0, tokens, width).to(dtype)
    check(x, *drawn_routes(tokens, experts, per_token), layer(experts, width, ffn, dtype))


def test_one_expert_that_all_want_and_others_that_nobody_does() -> None:
    """Of those nothing is read."""
    weights = layer(6, 20, 12, torch.float32)
    for expert in (0, 1, 3, 5):
        weights.gate_up[expert] = torch.nan
        weights.down[expert] = torch.nan
    chosen = torch.tensor([[4, 2]]).expand(90, 2)
    check(draw(0, 90, 20), chosen, draw(4, 90, 2), weights)


def test_more_pairs_than_are_put_in_order_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triton_experts, "PAIRS", 16)
    check(draw(0, 37, 12), *drawn_routes(37, 7, 3), layer(7, 12, 10, torch.float32))


@pytest.mark.parametrize("size", [16, 64])
def test_however_it_is_cut_up(size: int) -> None:
    with trying("experts", Tile(size, 4, 2)):
        check(draw(0, 9, 40), *drawn_routes(9, 4, 2), layer(4, 40, 50, torch.float32))


def test_no_token() -> None:
    weights = layer(4, 20, 12, torch.float32)
    chosen = torch.zeros(0, 2, dtype=torch.int64)
    ours = triton_experts.mixed_experts(draw(0, 0, 20), chosen, draw(0, 0, 2), weights)
    assert ours.shape == (0, 20)


def test_layouts_for_a_cpu_are_left_to_torch() -> None:
    weights = layer(4, 20, 12, torch.float32)
    packed = pack_experts(zip(weights.gate_up, weights.down, strict=True), 4)
    x, routes = draw(0, 5, 20), drawn_routes(5, 4, 2)
    ours = triton_experts.mixed_experts(x, *routes, packed)
    torch.testing.assert_close(ours, torch_mixed_experts(x, *routes, weights), atol=1e-5, rtol=1e-5)
