"""What may happen to logits before the choice of a token: one launch per stage, in place.

Top-k and top-p look for the least score that stays. Float32 numbers are mapped to integers of the
same order, whose bits are found from the highest down, two in each pass over the row: how many
tokens, or how much probability, lie at or above a candidate? No sorting, no scratch memory, and
the result is exact. A row is one program's: its scores stay in the second-level cache.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from lookhear.kernels.triton.configs import tile


def add_(scores: Tensor, places: Tensor, amounts: Tensor) -> None:
    """Bias, presence and frequency penalties, and with -inf prohibition.

    scores: [n, vocab] float32, contiguous; places: [p] int64, row * vocab + token, may repeat
    (sums are then in any order); amounts: [p] float32. Grid: (p / tile,).
    """
    _change(_add_kernel, scores, places, amounts)


def penalise_repeats_(scores: Tensor, places: Tensor, penalties: Tensor) -> None:
    """The repetition penalty of CTRL (Keskar et al., 2019): divides what is positive, multiplies
    what is negative. places: [p], each at most once; penalties: [p] float32. Grid: (p / tile,)."""
    _change(_penalty_kernel, scores, places, penalties)


def temper(scores: Tensor, temperature: Tensor) -> Tensor:
    """scores / temperature, shifted so that the best of a row is 0; a new tensor.

    scores: [n, vocab] float32; temperature: [n] float32, positive. Grid: (n,).
    """
    scores = scores.contiguous()
    out = torch.empty_like(scores)
    _by_row(_temper_kernel, scores, out, temperature)
    return out


def keep_min_p_(scores: Tensor, min_p: Tensor) -> None:
    """Keeps the tokens at least min_p [n] float32 times as probable as the best. 0 keeps all.
    scores: [n, vocab] float32, in place. Grid: (n,)."""
    _by_row(_min_p_kernel, scores, scores, min_p)


def keep_top_k_(scores: Tensor, top_k: Tensor, largest: int) -> None:
    """Keeps the top_k [n] int64 (1 <= top_k <= vocab) most probable tokens of a row, and what is as
    probable as the last of them. scores: [n, vocab] float32, in place. largest: at least every
    top_k; of use to other implementations. Grid: (n,)."""
    assert largest <= scores.shape[1], (largest, scores.shape)
    _by_row(_cut_kernel, scores, scores, top_k, BY_MASS=False)


def keep_top_p_(scores: Tensor, top_p: Tensor) -> None:
    """Keeps a token if all tokens more probable than it have together less than top_p [n] float64.

    The nucleus (Holtzman et al., 2020), with all that are as probable as its last token; the best
    always stays. scores: [n, vocab] float32, in place. Probabilities in float32; their sums, too,
    but for the last over some thousand lanes, in float64. Grid: (n,).
    """
    _by_row(_cut_kernel, scores, scores, top_p, BY_MASS=True)


def _change(kernel, scores: Tensor, places: Tensor, amounts: Tensor) -> None:
    assert scores.is_contiguous() and scores.dtype == torch.float32, scores.dtype
    count = len(places)
    if count > 0:
        size, warps, _ = tile("elementwise", count)
        grid = (triton.cdiv(count, size),)
        kernel[grid](scores, places, amounts, count, SIZE=size, num_warps=warps)


def _by_row(kernel, scores: Tensor, out: Tensor, parameter: Tensor, **flags: bool) -> None:
    assert scores.is_contiguous() and scores.dtype == torch.float32, scores.dtype
    n, vocab = scores.shape
    if n > 0:
        size, warps, _ = tile("vocabulary", vocab)
        size = min(size, triton.next_power_of_2(vocab))
        kernel[(n,)](scores, out, parameter, vocab, SIZE=size, num_warps=warps, **flags)


@triton.jit(do_not_specialize=["count"])
def _add_kernel(scores_ptr, places_ptr, amounts_ptr, count, SIZE: tl.constexpr):
    index = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    real = index < count
    place = tl.load(places_ptr + index, mask=real, other=0)
    amount = tl.load(amounts_ptr + index, mask=real, other=0.0)
    tl.atomic_add(scores_ptr + place, amount, mask=real)


@triton.jit(do_not_specialize=["count"])
def _penalty_kernel(scores_ptr, places_ptr, penalties_ptr, count, SIZE: tl.constexpr):
    index = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    real = index < count
    place = tl.load(places_ptr + index, mask=real, other=0)
    penalty = tl.load(penalties_ptr + index, mask=real, other=1.0)
    old = tl.load(scores_ptr + place, mask=real, other=0.0)
    tl.store(scores_ptr + place, tl.where(old < 0, old * penalty, old / penalty), mask=real)


@triton.jit
def _greatest(row_ptr, vocab, SIZE: tl.constexpr):
    """Of a row; -inf if nothing is finite."""
    best = tl.full([SIZE], float("-inf"), tl.float32)
    for start in range(0, vocab, SIZE):
        token = start + tl.arange(0, SIZE)
        x = tl.load(row_ptr + token, mask=token < vocab, other=float("-inf"))
        best = tl.maximum(best, x)
    return tl.max(best, 0)


@triton.jit
def _temper_kernel(scores_ptr, out_ptr, temperature_ptr, vocab, SIZE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    best = _greatest(scores_ptr + row * vocab, vocab, SIZE)
    temperature = tl.load(temperature_ptr + row)
    for start in range(0, vocab, SIZE):
        token = start + tl.arange(0, SIZE)
        x = tl.load(scores_ptr + row * vocab + token, mask=token < vocab, other=0.0)
        tl.store(out_ptr + row * vocab + token, (x - best) / temperature, mask=token < vocab)


@triton.jit
def _min_p_kernel(scores_ptr, out_ptr, min_p_ptr, vocab, SIZE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    min_p = tl.load(min_p_ptr + row)
    if min_p > 0.0:
        floor = _greatest(scores_ptr + row * vocab, vocab, SIZE) + tl.log(min_p)
        for start in range(0, vocab, SIZE):
            token = start + tl.arange(0, SIZE)
            x = tl.load(scores_ptr + row * vocab + token, mask=token < vocab, other=0.0)
            x = tl.where(x < floor, float("-inf"), x)
            tl.store(out_ptr + row * vocab + token, x, mask=token < vocab)


@triton.jit
def _order(x):
    """float32 to integers 0 .. 2^32 of the same order, in int64. -0 and 0 are one; NaN are at the
    ends."""
    bits = (x + 0.0).to(tl.int32, bitcast=True)
    return (bits ^ ((bits >> 31) & 0x7FFFFFFF)).to(tl.int64) + 2147483648


@triton.jit
def _cut_kernel(scores_ptr, out_ptr, wanted_ptr, vocab, BY_MASS: tl.constexpr, SIZE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    row_ptr = scores_ptr + row * vocab
    wanted = tl.load(wanted_ptr + row)  # of probability, or tokens: these are counted in int32
    # A lane has some dozens of numbers, which float32 adds up as exactly as they are; lanes are
    # added up in float64.
    LANE: tl.constexpr = tl.float32 if BY_MASS else tl.int32
    SUM: tl.constexpr = tl.float64 if BY_MASS else tl.int32
    best = 0.0
    whole = 1.0
    if BY_MASS:
        wanted = tl.maximum(wanted, 1e-30)  # of nothing there would be enough above the best, too
        best = _greatest(row_ptr, vocab, SIZE)
        sums = tl.zeros([SIZE], tl.float32)
        for start in range(0, vocab, SIZE):
            token = start + tl.arange(0, SIZE)
            x = tl.load(row_ptr + token, mask=token < vocab, other=float("-inf"))
            sums += tl.exp(x - best)
        whole = tl.sum(sums, 0)
    # The greatest number at or above which there is as much as wanted.
    floor = tl.zeros([1], tl.int64)
    for step in range(0, 16):
        unit = tl.full([1], 1, tl.int64) << (30 - 2 * step)
        one = tl.zeros([SIZE], LANE)
        two = tl.zeros([SIZE], LANE)
        three = tl.zeros([SIZE], LANE)
        for start in range(0, vocab, SIZE):
            token = start + tl.arange(0, SIZE)
            x = tl.load(row_ptr + token, mask=token < vocab, other=float("-inf"))
            order = tl.where(token < vocab, _order(x), -1)
            amount = tl.full([SIZE], 1, LANE)
            if BY_MASS:
                amount = tl.exp(x - best) / whole
            one += tl.where(order >= floor + unit, amount, 0)
            two += tl.where(order >= floor + 2 * unit, amount, 0)
            three += tl.where(order >= floor + 3 * unit, amount, 0)
        enough = (tl.sum(one.to(SUM), 0) >= wanted).to(tl.int64)
        enough += (tl.sum(two.to(SUM), 0) >= wanted).to(tl.int64)
        enough += (tl.sum(three.to(SUM), 0) >= wanted).to(tl.int64)
        floor += enough * unit
    for start in range(0, vocab, SIZE):
        token = start + tl.arange(0, SIZE)
        x = tl.load(row_ptr + token, mask=token < vocab, other=0.0)
        stays = (_order(x) >= floor) | (x != x)  # a NaN is for the reader to notice
        tl.store(
            out_ptr + row * vocab + token, tl.where(stays, x, float("-inf")), mask=token < vocab
        )
