"""A feed-forward layer of many experts, of which each token goes through a few.

    y = sum over a token's experts e: share_e * down_e(silu(gate_e(x)) * up_e(x))

On a CPU every expert has matrices in the layout that decoding wants there (`kernels.linear`), and
those that nobody chose are not read. On a GPU all lie in two tensors, and no shape, grid or loop of
the host depends on who chose whom: the passes can be captured.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from lookhear.kernels.activations import swiglu
from lookhear.kernels.choice import has_triton
from lookhear.kernels.linear import LinearWeights, linear, pack_linear


@dataclass(frozen=True, slots=True)
class ExpertWeights:
    """gate_up: [experts, 2 * ffn, width], the gates' half first. down: [experts, width, ffn]. Or,
    on a CPU, each expert's pair of them, and no elements in the two. Never written."""

    gate_up: Tensor
    down: Tensor
    each: tuple[tuple[LinearWeights, LinearWeights], ...] = ()


def pack_experts(
    experts: Iterator[tuple[Tensor, Tensor]], count: int, *, half: bool = False
) -> ExpertWeights:
    """Prepares weights for `mixed_experts`. experts: gate_up and down of one after another, count
    of them; only one is held beside what is made of them. half: see `pack_linear`."""
    first = next(experts)
    if first[0].device.type == "cpu":
        pairs = [_packed(first, half)]
        pairs += (_packed(pair, half) for pair in experts)
        assert len(pairs) == count, (len(pairs), count)
        nothing = first[0].new_empty(0)
        return ExpertWeights(nothing, nothing, tuple(pairs))
    gate_up, down = (matrix.new_empty(count, *matrix.shape) for matrix in first)
    gate_up[0], down[0] = first
    place = 0
    for place, pair in enumerate(experts, start=1):
        gate_up[place], down[place] = pair
    assert place + 1 == count, (place + 1, count)
    return ExpertWeights(gate_up, down)


def _packed(pair: tuple[Tensor, Tensor], half: bool) -> tuple[LinearWeights, LinearWeights]:
    # In one layout: an expert has few rows, and of small ones there would be a second copy.
    gate_up, down = (pack_linear(matrix, half=half) for matrix in pair)
    return gate_up, down


def route(x: Tensor, router: Tensor, per_token: int, *, normalises: bool) -> tuple[Tensor, Tensor]:
    """Which experts a token goes through, and what share of the sum each has.

    x: [tokens, width]; router: [experts, width] float32. Shares are probabilities of a softmax over
    all experts, in float32; normalises: those of a token's own add up to 1. Returns (chosen
    [tokens, per_token] int64, the likeliest first; shares, the same in float32).
    """
    probabilities = F.linear(x.float(), router).softmax(dim=-1)
    shares, chosen = probabilities.topk(per_token, dim=-1)
    return chosen, shares / shares.sum(dim=-1, keepdim=True) if normalises else shares


@has_triton
def mixed_experts(x: Tensor, chosen: Tensor, shares: Tensor, weights: ExpertWeights) -> Tensor:
    """The formula above.

    x: [tokens, width]; chosen: [tokens, n] int64, a token's all different; shares: [tokens, n]
    float32. Returns [tokens, width] in x's dtype; the terms of a token are added in the order of
    their experts' numbers, so that it does not matter who else is there.
    """
    experts = len(weights.each) or len(weights.gate_up)
    per_token = chosen.shape[1]
    flat = chosen.flatten()
    order = flat.argsort(stable=True)
    tokens, shares = order // per_token, shares.flatten()[order, None]
    ends = torch.searchsorted(flat[order], torch.arange(1, experts + 1, device=flat.device))
    out = torch.zeros_like(x)
    first = 0
    for expert, end in enumerate(ends.tolist()):
        if first == end:
            continue
        mine = tokens[first:end]
        y = _one(x[mine], expert, weights)
        out.index_add_(0, mine, y.mul_(shares[first:end].to(y.dtype)))
        first = end
    return out


def _one(x: Tensor, expert: int, weights: ExpertWeights) -> Tensor:
    """x: [rows, width], through one expert."""
    if weights.each:
        gate_up, down = weights.each[expert]
        return linear(swiglu(linear(x, gate_up)), down)
    return F.linear(swiglu(F.linear(x, weights.gate_up[expert])), weights.down[expert])
