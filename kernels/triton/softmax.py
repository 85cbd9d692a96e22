"""The running softmax of all attention kernels (Milakov and Gimelshein, 2018; Dao et al., 2022)."""

from __future__ import annotations

import math
from typing import Any

import triton
import triton.language as tl
from torch import Tensor

PROGRAMS = 256  # about two for every multiprocessor of a large card
MAX_SPLITS = 16
SPLIT_KEYS = 256  # shorter parts cost more to join than they save

INTERPRETED = tl.constexpr(bool(triton.knobs.runtime.interpret))


def scaled_exp2(dim: int, scale: float | None) -> float:
    """What products are multiplied by so that powers of 2 do for powers of e."""
    assert scale is None or scale > 0.0, scale  # `folded_whole` looks for the greatest before it
    return (dim**-0.5 if scale is None else scale) * math.log2(math.e)


@triton.jit
def folded(best, weight, mixed, scores, values, scale=1.0, SEES: tl.constexpr = False):
    """Takes one more tile of keys into a softmax that began earlier.

    best, weight: [queries] float32, the greatest score so far and the sum of 2^(score - best);
    mixed: [queries, dim] float32, the values so weighted. scores: [queries, keys] float32, -inf
    where a query must not look; scale: positive, what they are still to be multiplied by: it costs
    nothing here, in one instruction with the difference. values: [keys, dim]. SEES: every query
    sees a key of the tile, if not of those before. Returns the three anew.
    """
    top = tl.maximum(best, tl.max(scores, 1) * scale)
    base = top
    if not SEES:  # until it has seen a key, -inf minus -inf would be a NaN
        base = tl.where(top == float("-inf"), 0.0, top)
    shrink = tl.exp2(best - base)
    exponentials = tl.exp2(tl.fma(scores, scale, -base[:, None]))
    weight = weight * shrink + tl.sum(exponentials, 1)
    mixed = mixed * shrink[:, None]
    mixed = mixed + product(exponentials.to(values.dtype), values)
    return top, weight, mixed


@triton.jit
def product(a, b):
    """a b in float32: [m, k], [k, n] to [m, n]; of float32 numbers exactly, not in TF32."""
    if INTERPRETED:  # there a product takes bfloat16 for integers
        a = a.to(tl.float32)
        b = b.to(tl.float32)
    return tl.dot(a, b, input_precision="ieee")


@triton.jit
def attended(
    q,
    k_ptr,
    v_ptr,
    k_step,  # from a key to the next
    v_step,
    begin,
    end,
    visible,
    dim,
    scale,
    PRODUCT: tl.constexpr,
    KEYS: tl.constexpr,
    DIM: tl.constexpr,
    IS_PADDED: tl.constexpr,
    IS_WHOLE: tl.constexpr,
):
    """Queries of one head over keys `begin` .. `end` of one row and head, at k_ptr and v_ptr.

    q: [PRODUCT, DIM] in the keys' dtype; visible: [PRODUCT], query i sees keys below visible[i].
    IS_PADDED: dim is less than DIM. IS_WHOLE: not so, and tiles that every query sees all of have
    a loop of their own, without masks: fewer instructions, for many keys. The ragged tiles, one or
    two, come last: if they came first, the assembler would have Hopper's products wait for each
    other in the loop.
    Returns `folded`'s three. Keys outside are not read: zero times a NaN would be a NaN.
    """
    column = tl.arange(0, DIM)
    best = tl.full([PRODUCT], float("-inf"), tl.float32)
    weight = tl.zeros([PRODUCT], tl.float32)
    mixed = tl.zeros([PRODUCT, DIM], tl.float32)
    last = tl.minimum(visible, end)[:, None]
    ragged = begin
    if IS_WHOLE:
        # Those who see nothing look at whatever the others do: it is forgotten below.
        least = tl.min(tl.where(visible > 0, visible, end), 0)
        ragged = begin + tl.maximum(tl.minimum(least, end) - begin, 0) // KEYS * KEYS
        key = begin + tl.arange(0, KEYS)
        k_place = k_ptr + key[:, None] * k_step + column[None, :]
        v_place = v_ptr + key[:, None] * v_step + column[None, :]
        for _ in range(begin, ragged, KEYS):
            k = tl.load(k_place)
            v = tl.load(v_place)
            scores = product(q, tl.trans(k))
            best, weight, mixed = folded(best, weight, mixed, scores, v, scale, SEES=True)
            k_place += KEYS * k_step
            v_place += KEYS * v_step
    for start in tl.range(ragged, end, KEYS, num_stages=1 if IS_WHOLE else None):
        key = start + tl.arange(0, KEYS)
        # Beyond the end the last key again: it costs less than masks.
        real_key = tl.minimum(key, end - 1)[:, None]
        k_place = k_ptr + real_key * k_step + column[None, :]
        v_place = v_ptr + real_key * v_step + column[None, :]
        if IS_PADDED:
            k = tl.load(k_place, mask=(column < dim)[None, :], other=0.0)
            v = tl.load(v_place, mask=(column < dim)[None, :], other=0.0)
        else:
            k = tl.load(k_place)
            v = tl.load(v_place)
        scores = product(q, tl.trans(k))
        if IS_WHOLE:  # written so, it takes 24 registers less: two programs have room where one had
            seen = (key < end)[None, :] & (key[None, :] < visible[:, None])
            scores = tl.where(seen, scores * scale, float("-inf"))
            best, weight, mixed = folded(best, weight, mixed, scores, v)
        else:
            scores = tl.where(key[None, :] < last, scores, float("-inf"))
            best, weight, mixed = folded(best, weight, mixed, scores, v, scale)
    if IS_WHOLE:
        best = tl.where(visible > 0, best, float("-inf"))
        weight = tl.where(visible > 0, weight, 0.0)
        mixed = tl.where((visible > 0)[:, None], mixed, 0.0)
    return best, weight, mixed


def num_splits(programs: int, max_keys: int, split_keys: int = SPLIT_KEYS) -> int:
    """Into how many parts to cut every row's keys, where `programs` alone leave the card idle: a
    power of two, so that few variants are compiled. split_keys: of a part, at least."""
    most = min(MAX_SPLITS, max_keys // split_keys, PROGRAMS // programs)
    return 1 if most < 2 else 1 << (most.bit_length() - 1)


def joined(parts: Tensor, sums: Tensor, out: Tensor, *, is_early: bool = False) -> None:
    """The softmax over all keys from those over parts of them: an online softmax's last step.

    parts: [splits, lines, dim] float32, sums of values; sums: [2, splits, lines] float32, of each
    the greatest score (-inf: nothing seen, parts and sums are not read) and the sum of
    exponentials. out: [lines, dim], written. Grid: (lines,). is_early: launched before the kernel
    in front has ended, see `configs.launches_early`.
    """
    splits, lines, dim = parts.shape
    extra: dict[str, Any] = {"launch_pdl": True} if is_early else {}
    _join_kernel[(lines,)](
        parts,
        sums,
        out,
        lines,
        dim,
        SPLITS=splits,
        DIM=triton.next_power_of_2(dim),
        EARLY=is_early,
        num_warps=2,
        **extra,
    )


@triton.jit(do_not_specialize=["lines"])
def _join_kernel(
    parts_ptr,
    sums_ptr,
    out_ptr,
    lines,
    dim,
    SPLITS: tl.constexpr,
    DIM: tl.constexpr,
    EARLY: tl.constexpr,
):
    if EARLY:
        tl.extra.cuda.gdc_launch_dependents()
        tl.extra.cuda.gdc_wait()
    line = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, DIM)
    place = tl.arange(0, SPLITS).to(tl.int64) * lines + line
    best = tl.load(sums_ptr + place)
    has_seen = best > float("-inf")
    weight = tl.load(sums_ptr + SPLITS * lines + place, mask=has_seen, other=0.0)
    top = tl.max(best, 0)
    share = tl.exp2(best - tl.where(top == float("-inf"), 0.0, top))
    readable = has_seen[:, None] & (column < dim)[None, :]
    target = parts_ptr + place[:, None] * dim + column[None, :]
    mixed = tl.load(target, mask=readable, other=0.0)
    total = tl.sum(weight * share, 0)
    y = tl.sum(mixed * share[:, None], 0) / tl.where(total > 0.0, total, 1.0)
    tl.store(out_ptr + line * dim + column, y.to(out_ptr.dtype.element_ty), mask=column < dim)
