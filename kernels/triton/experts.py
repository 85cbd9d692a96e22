"""Experts on a GPU: pairs of a token and an expert are put in order, then two products by groups.

    order     pairs sorted by expert, those of one in the order of their tokens; where each begins
    gate_up   of a pair's token, its expert's product, SwiGLU behind it: [pairs, ffn], in that order
    down      the second product times the pair's share, written to the pair's own place
    sum       over a token's pairs

A program of a product has one expert and some outputs, and takes that expert's pairs a few rows at
a time: none if nobody chose it. So the grids are fixed, whoever chose whom.
"""

# mypy: disable-error-code="assignment"

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from lookhear.kernels.experts import ExpertWeights
from lookhear.kernels.experts import mixed_experts as mixed
from lookhear.kernels.triton.configs import tile
from lookhear.kernels.triton.softmax import product

MIN_ROWS, MOST_ROWS = 16, 64  # of a product; tensor cores take no fewer
INPUTS = 64  # of one turn of a product's loop
PAIRS = 1024  # looked at together while they are put in order


def mixed_experts(x: Tensor, chosen: Tensor, shares: Tensor, weights: ExpertWeights) -> Tensor:
    """See the torch version. Terms are rounded to x's dtype, and added in float32 in the order of a
    token's choice.

    x: [tokens, width]; chosen, shares: [tokens, n]. Grids: (experts,), (ffn / tile, experts),
    (width / tile, experts).
    """
    if weights.each:  # in layouts for a CPU
        y: Tensor = mixed.__wrapped__(x, chosen, shares, weights)  # type: ignore[attr-defined]
        return y
    (tokens, width), per_token = x.shape, chosen.shape[1]
    experts, ffn = len(weights.gate_up), weights.down.shape[2]
    pairs = tokens * per_token
    if pairs == 0:
        return torch.zeros_like(x)
    assert weights.gate_up.is_contiguous() and weights.down.is_contiguous()
    x, chosen, shares = x.contiguous(), chosen.contiguous(), shares.contiguous()
    order = torch.empty(pairs, dtype=torch.int32, device=x.device)
    starts = torch.empty(experts + 1, dtype=torch.int32, device=x.device)
    _order_kernel[(experts,)](
        chosen, order, starts, pairs, EXPERTS=experts, PAIRS=PAIRS, num_warps=4
    )  # fmt: skip
    # As many rows as an expert has if all are liked equally.
    share = triton.cdiv(pairs, experts)
    rows = min(MOST_ROWS, max(MIN_ROWS, triton.next_power_of_2(share)))
    outs, warps, stages = tile("experts", share)
    is_wide = x.element_size() > 2  # float32 is multiplied in registers
    inputs = INPUTS // 2 if is_wide else INPUTS
    inner = torch.empty(pairs, ffn, dtype=x.dtype, device=x.device)
    _gate_up_kernel[(triton.cdiv(ffn, outs), experts)](
        x, weights.gate_up, order, starts, inner,
        WIDTH=width, FFN=ffn, PER_TOKEN=per_token, ROWS=rows, OUTS=outs, INPUTS=inputs,
        num_warps=warps, num_stages=stages,
    )  # fmt: skip
    terms = torch.empty(tokens, per_token, width, dtype=x.dtype, device=x.device)
    _down_kernel[(triton.cdiv(width, outs), experts)](
        inner, weights.down, order, starts, shares, terms,
        WIDTH=width, FFN=ffn, ROWS=rows, OUTS=outs, INPUTS=inputs,
        num_warps=warps, num_stages=stages,
    )  # fmt: skip
    return terms.sum(dim=1)


@triton.jit(do_not_specialize=["pairs"])
def _order_kernel(
    chosen_ptr, order_ptr, starts_ptr, pairs, EXPERTS: tl.constexpr, PAIRS: tl.constexpr
):
    # Pairs of experts before this one are counted: behind them its own begin.
    expert = tl.program_id(0)
    before = tl.zeros([PAIRS], tl.int32)
    for begin in range(0, pairs, PAIRS):
        pair = begin + tl.arange(0, PAIRS)
        whose = tl.load(chosen_ptr + pair, mask=pair < pairs, other=EXPERTS)
        before += (whose < expert).to(tl.int32)
    place = tl.sum(before, 0)
    tl.store(starts_ptr + expert, place)
    for begin in range(0, pairs, PAIRS):
        pair = begin + tl.arange(0, PAIRS)
        whose = tl.load(chosen_ptr + pair, mask=pair < pairs, other=EXPERTS)
        mine = (whose == expert).to(tl.int32)
        target = place + tl.cumsum(mine, 0) - mine
        tl.store(order_ptr + target, pair, mask=mine > 0)
        place += tl.sum(mine, 0)
    if expert == EXPERTS - 1:
        tl.store(starts_ptr + EXPERTS, place)


@triton.jit
def _gate_up_kernel(
    x_ptr,
    weight_ptr,
    order_ptr,
    starts_ptr,
    out_ptr,
    WIDTH: tl.constexpr,
    FFN: tl.constexpr,
    PER_TOKEN: tl.constexpr,
    ROWS: tl.constexpr,
    OUTS: tl.constexpr,
    INPUTS: tl.constexpr,
):
    expert = tl.program_id(1)
    first = tl.load(starts_ptr + expert)
    end = tl.load(starts_ptr + expert + 1)
    line = tl.program_id(0) * OUTS + tl.arange(0, OUTS)
    wanted = line < FFN
    # Rows of weights beyond the last are the last again: their results are not written.
    near = tl.minimum(line, FFN - 1).to(tl.int64)
    gates = weight_ptr + (expert.to(tl.int64) * 2 * FFN + near) * WIDTH
    column = tl.arange(0, INPUTS)
    for begin in range(first, end, ROWS):
        row = begin + tl.arange(0, ROWS)
        real = row < end
        token = (tl.load(order_ptr + tl.minimum(row, end - 1)) // PER_TOKEN).to(tl.int64)
        gate = tl.zeros([ROWS, OUTS], tl.float32)
        up = tl.zeros([ROWS, OUTS], tl.float32)
        for start in range(0, WIDTH, INPUTS):
            place = start + column
            inside = place < WIDTH
            source = x_ptr + token[:, None] * WIDTH + place[None, :]
            x = tl.load(source, mask=inside[None, :], other=0.0)
            target = gates[None, :] + place[:, None]
            w = tl.load(target, mask=inside[:, None], other=0.0)
            u = tl.load(target + FFN * WIDTH, mask=inside[:, None], other=0.0)
            gate += product(x, w)
            up += product(x, u)
        # Rounded where separate operations round.
        kind = out_ptr.dtype.element_ty
        gate = gate.to(kind).to(tl.float32)
        silu = (gate * tl.sigmoid(gate)).to(kind).to(tl.float32)
        y = silu * up.to(kind).to(tl.float32)
        where = out_ptr + row.to(tl.int64)[:, None] * FFN + line[None, :]
        tl.store(where, y.to(kind), mask=real[:, None] & wanted[None, :])


@triton.jit
def _down_kernel(
    x_ptr,
    weight_ptr,
    order_ptr,
    starts_ptr,
    shares_ptr,
    out_ptr,
    WIDTH: tl.constexpr,
    FFN: tl.constexpr,
    ROWS: tl.constexpr,
    OUTS: tl.constexpr,
    INPUTS: tl.constexpr,
):
    expert = tl.program_id(1)
    first = tl.load(starts_ptr + expert)
    end = tl.load(starts_ptr + expert + 1)
    line = tl.program_id(0) * OUTS + tl.arange(0, OUTS)
    wanted = line < WIDTH
    near = tl.minimum(line, WIDTH - 1).to(tl.int64)
    outputs = weight_ptr + (expert.to(tl.int64) * WIDTH + near) * FFN
    column = tl.arange(0, INPUTS)
    for begin in range(first, end, ROWS):
        row = begin + tl.arange(0, ROWS)
        real = row < end
        held = tl.minimum(row, end - 1)
        pair = tl.load(order_ptr + held).to(tl.int64)
        y = tl.zeros([ROWS, OUTS], tl.float32)
        for start in range(0, FFN, INPUTS):
            place = start + column
            inside = place < FFN
            source = x_ptr + held.to(tl.int64)[:, None] * FFN + place[None, :]
            x = tl.load(source, mask=inside[None, :], other=0.0)
            target = outputs[None, :] + place[:, None]
            w = tl.load(target, mask=inside[:, None], other=0.0)
            y += product(x, w)
        kind = out_ptr.dtype.element_ty
        share = tl.load(shares_ptr + pair).to(kind).to(tl.float32)
        y = y.to(kind).to(tl.float32) * share[:, None]
        where = out_ptr + pair[:, None] * WIDTH + line[None, :]
        tl.store(where, y.to(kind), mask=real[:, None] & wanted[None, :])
