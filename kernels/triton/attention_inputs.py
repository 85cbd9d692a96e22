"""What lies between a fused projection and paged attention: one launch and one pass for all."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from lookhear.kernels.fp8 import FP8
from lookhear.kernels.triton.fp8 import saturated_fp8


def norm_rope_write(
    qkv: Tensor,
    weight: Tensor | None,
    eps: float,
    cos: Tensor,
    sin: Tensor,
    cache: Tensor,
    slots: Tensor,
) -> Tensor:
    """Normalises and turns queries and keys, and puts keys and values into their slots, in place.

        x = x / sqrt(mean(x^2) + eps) * weight;  (a, b) = (a cos_a + b sin_a, b cos_b + a sin_b)

    without the first where weight is None.

    qkv: [tokens, heads + 2 * kv_heads, dim]: queries, keys, values, any strides of tokens and
    heads; weight: [heads + kv_heads, dim]; cos, sin: [tokens, 1, dim] of `rope_angles`; cache: [2,
    blocks, block, kv_heads, dim], in float8 too; slots: [tokens] int64, those outside of the cache
    are not written. Any float dtypes, computed in float32. Returns the queries, [tokens, heads,
    dim]. Grid: (tokens,). Rounded to qkv's dtype where the separate operations round.
    """
    assert cache.is_contiguous()
    if qkv.stride(2) != 1:
        qkv = qkv.contiguous()
    tokens, all_heads, dim = qkv.shape
    kv_heads = cache.shape[3]
    heads = all_heads - 2 * kv_heads
    out = torch.empty((tokens, heads, dim), dtype=qkv.dtype, device=qkv.device)
    if qkv.numel() > 0:
        _inputs_kernel[(tokens,)](
            qkv,
            qkv if weight is None else weight.contiguous(),
            cos.contiguous(),
            sin.contiguous(),
            cache,
            slots,
            out,
            qkv.stride(0),
            qkv.stride(1),
            cache.shape[1] * cache.shape[2],
            heads,
            kv_heads,
            dim // 2,
            eps,
            HEADS=triton.next_power_of_2(all_heads),
            PAIRS=triton.next_power_of_2(dim // 2),
            IS_FP8=cache.dtype == FP8,
            NORMED=weight is not None,
            num_warps=8 if all_heads * dim > 2048 else 4,
        )
    return out


@triton.jit
def turned(a, b, factor_ptr, cos_a, cos_b, sin_a, sin_b, real, pairs, eps, NORMED: tl.constexpr):
    """Heads normalised and rotated, in halves: a, b: [heads, pairs], of any dtype, 0 beyond the
    real ones; factor_ptr: to what a is multiplied with, that of b is pairs further; the others
    broadcast to that, in float32. Returns both halves in a's dtype."""
    kind = a.dtype
    left, right = a.to(tl.float32), b.to(tl.float32)
    if NORMED:
        weight_a = tl.load(factor_ptr, mask=real, other=0.0).to(tl.float32)
        weight_b = tl.load(factor_ptr + pairs, mask=real, other=0.0).to(tl.float32)
        mean = (tl.sum(left * left, 1) + tl.sum(right * right, 1))[:, None] / (2 * pairs)
        shrink = 1.0 / tl.sqrt(mean + eps)
        left = ((left * shrink).to(kind).to(tl.float32) * weight_a).to(kind).to(tl.float32)
        right = ((right * shrink).to(kind).to(tl.float32) * weight_b).to(kind).to(tl.float32)
    return (left * cos_a + right * sin_a).to(kind), (right * cos_b + left * sin_b).to(kind)


@triton.jit
def _inputs_kernel(
    qkv_ptr,
    weight_ptr,
    cos_ptr,
    sin_ptr,
    cache_ptr,
    slots_ptr,
    out_ptr,
    token_stride,
    head_stride,
    num_slots,
    heads,
    kv_heads,
    pairs,
    eps,
    HEADS: tl.constexpr,
    PAIRS: tl.constexpr,
    IS_FP8: tl.constexpr,
    NORMED: tl.constexpr,
):
    token = tl.program_id(0).to(tl.int64)
    head = tl.arange(0, HEADS)[:, None]
    pair = tl.arange(0, PAIRS)[None, :]
    exists = pair < pairs
    is_turned = head < heads + kv_heads
    real = (head < heads + 2 * kv_heads) & exists
    source = qkv_ptr + token * token_stride + head * head_stride + pair
    a = tl.load(source, mask=real, other=0.0)
    b = tl.load(source + pairs, mask=real, other=0.0)

    factor = weight_ptr + head * 2 * pairs + pair

    angle = token * 2 * pairs + pair  # that of b is pairs further
    cos_a = tl.load(cos_ptr + angle, mask=exists, other=0.0).to(tl.float32)
    cos_b = tl.load(cos_ptr + angle + pairs, mask=exists, other=0.0).to(tl.float32)
    sin_a = tl.load(sin_ptr + angle, mask=exists, other=0.0).to(tl.float32)
    sin_b = tl.load(sin_ptr + angle + pairs, mask=exists, other=0.0).to(tl.float32)
    turned_a, turned_b = turned(
        a, b, factor, cos_a, cos_b, sin_a, sin_b, is_turned & exists, pairs, eps, NORMED
    )
    # Values are neither normalised nor turned.
    a = tl.where(is_turned, turned_a, a)
    b = tl.where(is_turned, turned_b, b)

    is_query = (head < heads) & exists
    target = out_ptr + (token * heads + head) * 2 * pairs + pair
    tl.store(target, a.to(out_ptr.dtype.element_ty), mask=is_query)
    tl.store(target + pairs, b.to(out_ptr.dtype.element_ty), mask=is_query)

    slot = tl.load(slots_ptr + token).to(tl.int64)
    if (slot >= 0) & (slot < num_slots):
        number = head - heads  # first the keys, then the values
        is_value = number >= kv_heads
        mine = tl.where(is_value, number - kv_heads, number)
        half = tl.where(is_value, slot + num_slots, slot)
        place = cache_ptr + (half * kv_heads + mine) * 2 * pairs + pair
        written = (number >= 0) & real
        if IS_FP8:
            tl.store(place, saturated_fp8(a), mask=written)
            tl.store(place + pairs, saturated_fp8(b), mask=written)
        else:
            tl.store(place, a.to(cache_ptr.dtype.element_ty), mask=written)
            tl.store(place + pairs, b.to(cache_ptr.dtype.element_ty), mask=written)
