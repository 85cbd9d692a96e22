"""Self-attention of a decode step: norms, rotation, the cache's new entry and the attention in one.

A program has a row's token, a key head with the query heads that read it, and a part of the keys.
It prepares its queries itself; the part that ends with the new key prepares that too, writes it,
and attends to it from registers, so that nothing has to be written before it is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from lookhear.kernels.fp8 import FP8
from lookhear.kernels.paged_attention import Span
from lookhear.kernels.triton.attention_inputs import norm_rope_write, turned
from lookhear.kernels.triton.configs import launches_early, tile
from lookhear.kernels.triton.fp8 import saturated_fp8
from lookhear.kernels.triton.paged_attention import MIN_ROWS, paged_attention
from lookhear.kernels.triton.softmax import folded, joined, num_splits, product, scaled_exp2

SPLIT_KEYS = 128  # of a part at least: with few rows, time is what one program takes


def self_attention_paged(
    qkv: Tensor,
    weight: Tensor | None,
    eps: float,
    cos: Tensor,
    sin: Tensor,
    cache: Tensor,
    slots: Tensor,
    block_tables: Tensor,
    past_lengths: Tensor,
    query_lengths: Tensor,
    *,
    is_decode: bool = False,
    known: Sequence[Span] | None = None,
) -> Tensor:
    """softmax(q k^T / sqrt(dim)) v of new tokens over their row's blocks, from the projection on.

        q, k = rope(rms_norm(q) * weight), rope(rms_norm(k) * weight);  k, v -> cache[slot]

    without norms where weight is None.
    qkv: [tokens, heads + 2 * kv_heads, dim]; weight: [heads + kv_heads, dim]; cos, sin: [tokens, 1,
    dim]; cache: [2, blocks, block, kv_heads, dim], in float8 too, written at slots: [tokens] int64,
    those outside of it are not. block_tables: [rows, max_blocks], past_lengths, query_lengths:
    [rows] int64. is_decode: every row has one token, and the queries of token i are row i's;
    query_lengths is not read then, and past_lengths while the kernel launched before may still run:
    that must not be what writes them. known: not needed here. Any float dtypes. Returns [tokens,
    heads, dim] in qkv's.

    Grid: (rows, kv_heads, splits), then (rows * heads,) to join. Rounded where the separate
    operations round, but for the new key's score: a sum of products in float32 as the others are.
    """
    if not is_decode:
        q = norm_rope_write(qkv, weight, eps, cos, sin, cache, slots)
        return paged_attention(q, cache, block_tables, past_lengths, query_lengths)
    rows, all_heads, dim = qkv.shape
    kv_heads = cache.shape[3]
    heads = all_heads - 2 * kv_heads
    assert cache.is_contiguous() and len(block_tables) == rows, (cache.shape, block_tables.shape)
    if qkv.stride(2) != 1:
        qkv = qkv.contiguous()
    out = torch.empty((rows, heads, dim), dtype=qkv.dtype, device=qkv.device)
    if out.numel() == 0:
        return out
    group = heads // kv_heads
    keys, warps, stages = tile("decode attention", dim)
    if (qkv if cache.dtype == FP8 else cache).element_size() > 2:  # what is multiplied
        keys //= 2
    max_keys = block_tables.shape[1] * cache.shape[2]
    splits = num_splits(rows * kv_heads, max_keys, SPLIT_KEYS)
    parts = sums = out
    if splits > 1:
        parts = torch.empty((splits, rows, heads, dim), dtype=torch.float32, device=qkv.device)
        sums = torch.empty((2, splits, rows, heads), dtype=torch.float32, device=qkv.device)
    early = launches_early()
    extra: dict[str, Any] = {"launch_pdl": True} if early else {}
    _decode_kernel[(rows, kv_heads, splits)](
        qkv,
        qkv if weight is None else weight.contiguous(),
        cos.contiguous(),
        sin.contiguous(),
        cache,
        slots,
        block_tables.contiguous(),
        past_lengths,
        parts,
        sums,
        rows,
        block_tables.shape[1],
        qkv.stride(0),
        qkv.stride(1),
        cache.shape[1] * cache.shape[2],
        dim // 2,
        eps,
        scaled_exp2(dim, None),
        BLOCK=cache.shape[2],
        KV_HEADS=kv_heads,
        GROUP=group,
        PRODUCT=max(MIN_ROWS, triton.next_power_of_2(group)),
        KEYS=keys,
        PAIRS=max(16, triton.next_power_of_2(dim // 2)),
        DIM=max(16, triton.next_power_of_2(dim)),
        SPLITS=splits,
        IS_FP8=cache.dtype == FP8,
        EARLY=early,
        NORMED=weight is not None,
        num_warps=warps,
        num_stages=stages,
        **extra,
    )
    if splits > 1:
        joined(parts.flatten(1, 2), sums.flatten(2), out, is_early=early)
    return out


@triton.jit
def _prepared(
    x_ptr, weight_ptr, cos_a, cos_b, sin_a, sin_b, real, pairs, eps, NORMED: tl.constexpr
):
    """`turned` heads. x_ptr, weight_ptr: [heads, pairs], to the first halves; the others are pairs
    further. Returns both halves in x's dtype."""
    a = tl.load(x_ptr, mask=real, other=0.0)
    b = tl.load(x_ptr + pairs, mask=real, other=0.0)
    return turned(a, b, weight_ptr, cos_a, cos_b, sin_a, sin_b, real, pairs, eps, NORMED)


@triton.jit(do_not_specialize=["rows", "max_blocks"])
def _decode_kernel(
    qkv_ptr,
    weight_ptr,
    cos_ptr,
    sin_ptr,
    cache_ptr,
    slots_ptr,
    tables_ptr,
    past_ptr,
    out_ptr,  # the parts, if there are several
    sums_ptr,
    rows,
    max_blocks,
    token_stride,
    head_stride,
    num_slots,
    pairs,
    eps,
    scale,  # times log2 e
    BLOCK: tl.constexpr,
    KV_HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    PRODUCT: tl.constexpr,
    KEYS: tl.constexpr,
    PAIRS: tl.constexpr,
    DIM: tl.constexpr,
    SPLITS: tl.constexpr,
    IS_FP8: tl.constexpr,
    EARLY: tl.constexpr,
    NORMED: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    split = tl.program_id(2)
    # Before the wait, so it must not be written by anything that may still run now. Kernels that
    # are launched early let the next one begin before they have waited themselves: a chain of them
    # reaches back to the last kernel that is not one, and only what that one follows has surely
    # ended. In a decoder such a kernel stands before layer 0 (`Qwen3Model.forward`).
    past = tl.load(past_ptr + row).to(tl.int32)
    if EARLY:
        tl.extra.cuda.gdc_launch_dependents()
        tl.extra.cuda.gdc_wait()
    heads = KV_HEADS * GROUP
    # What is multiplied, which is what is kept unless that is float8.
    kind = qkv_ptr.dtype.element_ty if IS_FP8 else cache_ptr.dtype.element_ty
    line = tl.arange(0, PRODUCT)[:, None]  # query heads of the group, and padding
    pair = tl.arange(0, PAIRS)[None, :]
    exists = pair < pairs
    dim = 2 * pairs

    angle = row * dim + pair  # that of the other halves is pairs further
    cos_a = tl.load(cos_ptr + angle, mask=exists, other=0.0).to(tl.float32)
    cos_b = tl.load(cos_ptr + angle + pairs, mask=exists, other=0.0).to(tl.float32)
    sin_a = tl.load(sin_ptr + angle, mask=exists, other=0.0).to(tl.float32)
    sin_b = tl.load(sin_ptr + angle + pairs, mask=exists, other=0.0).to(tl.float32)
    token = qkv_ptr + row * token_stride
    lane = head * GROUP + line
    real = (line < GROUP) & exists
    q_a, q_b = _prepared(
        token + lane * head_stride + pair,
        weight_ptr + lane * dim + pair,
        cos_a, cos_b, sin_a, sin_b, real, pairs, eps, NORMED,
    )  # fmt: skip
    q_a = q_a.to(kind)
    q_b = q_b.to(kind)

    part = tl.cdiv(tl.cdiv(past, SPLITS), KEYS) * KEYS
    begin = split * part
    end = tl.minimum(begin + part, past)
    column = tl.arange(0, DIM)[None, :]
    in_head = column < dim
    cache_half = num_slots.to(tl.int64) * KV_HEADS * dim  # from a key to its value
    best = tl.full([PRODUCT], float("-inf"), tl.float32)
    weight = tl.zeros([PRODUCT], tl.float32)
    mixed = tl.zeros([PRODUCT, DIM], tl.float32)
    table = tables_ptr + row * max_blocks
    for start in range(begin, end, KEYS):
        key = start + tl.arange(0, KEYS)
        is_there = key < end
        block = tl.load(table + key // BLOCK, mask=is_there, other=0)
        # int64: a cache has more than 2^31 elements.
        slot = block.to(tl.int64) * BLOCK + key % BLOCK
        held = cache_ptr + ((slot * KV_HEADS + head) * dim)[:, None]
        # What lies beyond the row's length is not read: zero times a NaN would be a NaN.
        k_a = tl.load(held + pair, mask=is_there[:, None] & exists, other=0.0)
        k_b = tl.load(held + pairs + pair, mask=is_there[:, None] & exists, other=0.0)
        v = tl.load(held + cache_half + column, mask=is_there[:, None] & in_head, other=0.0)
        if IS_FP8:
            k_a = k_a.to(kind)
            k_b = k_b.to(kind)
            v = v.to(kind)
        scores = (product(q_a, tl.trans(k_a)) + product(q_b, tl.trans(k_b))) * scale
        scores = tl.where(is_there[None, :], scores, float("-inf"))
        best, weight, mixed = folded(best, weight, mixed, scores, v)

    if split == SPLITS - 1:  # and the new key, which no other part sees
        own = heads + head
        k_a, k_b = _prepared(
            token + own * head_stride + pair,
            weight_ptr + own * dim + pair,
            cos_a, cos_b, sin_a, sin_b, exists, pairs, eps, NORMED,
        )  # fmt: skip
        source = token + (own + KV_HEADS) * head_stride + column
        v = tl.load(source, mask=in_head, other=0.0)
        if IS_FP8:
            k_a = saturated_fp8(k_a)
            k_b = saturated_fp8(k_b)
            v = saturated_fp8(v)
        else:
            k_a = k_a.to(kind)
            k_b = k_b.to(kind)
            v = v.to(kind)
        slot = tl.load(slots_ptr + row).to(tl.int64)
        if (slot >= 0) & (slot < num_slots):
            place = cache_ptr + (slot * KV_HEADS + head) * dim
            tl.store(place + pair, k_a, mask=exists)
            tl.store(place + pairs + pair, k_b, mask=exists)
            tl.store(place + cache_half + column, v, mask=in_head)
        score = tl.sum(q_a.to(tl.float32) * k_a.to(tl.float32), 1)
        score = (score + tl.sum(q_b.to(tl.float32) * k_b.to(tl.float32), 1)) * scale
        top = tl.maximum(best, score)
        base = tl.where(top == float("-inf"), 0.0, top)  # a score that is no number
        shrink = tl.exp2(best - base)
        share = tl.exp2(score - base)
        weight = weight * shrink + share
        # Rounded as the probabilities of a tile are before they meet the values.
        share = share.to(kind).to(tl.float32)
        mixed = mixed * shrink[:, None] + share[:, None] * v.to(tl.float32)
        best = top

    place = row * heads + head * GROUP + tl.arange(0, PRODUCT)
    mine = tl.arange(0, PRODUCT) < GROUP
    if SPLITS == 1:
        y = mixed / tl.where(weight > 0.0, weight, 1.0)[:, None]
        target = out_ptr + place[:, None] * dim + column
        tl.store(target, y.to(out_ptr.dtype.element_ty), mask=mine[:, None] & in_head)
    else:
        count = rows.to(tl.int64) * heads
        where = split * count + place
        target = out_ptr + where[:, None] * dim + column
        tl.store(target, mixed, mask=mine[:, None] & in_head)
        tl.store(sums_ptr + where, best, mask=mine)
        tl.store(sums_ptr + SPLITS * count + where, weight, mask=mine)
