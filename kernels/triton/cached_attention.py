"""Attention of new tokens over slots of cached keys: a decoder's own, and over the encoder."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache as remembered

import torch
import triton
import triton.language as tl
from torch import Tensor

from lookhear.kernels.triton.attention import attention_over
from lookhear.kernels.triton.softmax import product, scaled_exp2

QUERIES = 16
KEYS = 64


def self_attention_cached(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cache: Tensor,
    rows: Tensor,
    row_lengths: Tensor,
    query_lengths: Tensor,
    *,
    scale: float | None = None,
) -> Tensor:
    """Appends the new keys and values to the cache, then attends causally over all of it.

    q, k, v: [batch, queries, heads, dim], of which the first query_lengths[b] queries are real.
    cache: [2, rows, heads, context, dim] (one layer), keys then values; written in place at
    positions row_lengths[b] .. row_lengths[b] + query_lengths[b] - 1 of row rows[b], if they are
    inside of the context, and nowhere else. Query i sees positions 0 .. row_lengths[b] + i. rows,
    row_lengths, query_lengths: [batch] int64. scale: default dim ** -0.5. Any float dtypes.
    Returns [batch, queries, heads, dim] in q's dtype, zero for padded queries.
    Grid: (batch * queries,) to write, then as in `attention`.
    """
    assert cache.is_contiguous()
    k, v = (x if x.stride(3) == 1 else x.contiguous() for x in (k, v))
    batch, queries, heads, dim = q.shape
    if q.numel() > 0:
        _append_kernel[(batch * queries,)](
            k,
            v,
            cache,
            rows,
            row_lengths,
            query_lengths,
            k.stride(0),
            k.stride(1),
            k.stride(2),
            v.stride(0),
            v.stride(1),
            v.stride(2),
            cache.stride(0),
            queries,
            cache.shape[3],
            heads,
            dim,
            HEADS=triton.next_power_of_2(heads),
            DIM=triton.next_power_of_2(dim),
            num_warps=4,
        )
    keys, values = cache.transpose(2, 3).unbind(0)  # [rows, context, heads, dim]
    return attention_over(
        q,
        keys,
        values,
        slots=rows,
        lengths=query_lengths,
        past_lengths=row_lengths,
        scale=scale,
    )


def cross_attention_cached(
    q: Tensor, cache: Tensor, slots: Tensor, lengths: Tensor, *, scale: float | None = None
) -> Tensor:
    """Attends over the encoder positions kept in each row's slot.

    q: [batch, queries, heads, dim]. cache: [slots, 2, heads, positions, dim] (one layer), keys then
    values, only read. slots, lengths: [batch] int64; positions from lengths[b] on are not read.
    scale: default dim ** -0.5. Any float dtypes. Returns [batch, queries, heads, dim] in q's dtype.
    Grid as in `attention`; one token of few rows has its keys cut into parts.
    """
    keys, values = cache.transpose(2, 3).unbind(1)  # [slots, positions, heads, dim]
    return attention_over(q, keys, values, slots=slots, lengths=lengths, scale=scale)


def cross_attention_weights(
    q: Tensor,
    cache: Tensor,
    slots: Tensor,
    lengths: Tensor,
    heads: Sequence[int],
    *,
    scale: float | None = None,
    positions: int | None = None,
) -> Tensor:
    """The attention weights of chosen heads: where in the audio each token looks.

    Arguments as in `cross_attention_cached`. heads: indices, in the order of the result. positions:
    of the result, at least max(lengths); the default is just that, and has to be read back from the
    device: a captured step has to say.
    Returns [batch, chosen heads, queries, positions] float32, zero from lengths[b] on. Products
    in the cache's dtype, sums in float32. Grid: (pieces of queries, chosen heads, batch); two
    passes over the keys, since the weights are far more than a program can hold.
    """
    batch, queries, _, dim = q.shape
    if positions is None:
        positions = int(lengths.max()) if batch else 0
    chosen = _index(tuple(heads), q.device)
    shape = (batch, len(chosen), queries, positions)
    out = torch.zeros(shape, dtype=torch.float32, device=q.device)
    if out.numel() > 0:
        q, cache = (x if x.stride(-1) == 1 else x.contiguous() for x in (q, cache))
        _weights_kernel[(triton.cdiv(queries, QUERIES), len(chosen), batch)](
            q,
            cache,
            slots,
            lengths,
            chosen,
            out,
            q.stride(0),
            q.stride(1),
            q.stride(2),
            cache.stride(0),
            cache.stride(2),
            cache.stride(3),
            queries,
            positions,
            len(chosen),
            dim,
            scaled_exp2(dim, scale),
            QUERIES=QUERIES,
            KEYS=KEYS,
            DIM=max(16, triton.next_power_of_2(dim)),
            num_warps=4,
        )
    return out


@remembered
def _index(heads: tuple[int, ...], device: torch.device) -> Tensor:
    """Sent to a device once: a captured step cannot wait for it."""
    return torch.tensor(heads, dtype=torch.int64, device=device)


@triton.jit(do_not_specialize=["queries"])
def _append_kernel(
    k_ptr,
    v_ptr,
    cache_ptr,
    rows_ptr,
    past_ptr,
    new_ptr,
    k_row,
    k_query,
    k_head,
    v_row,
    v_query,
    v_head,
    cache_half,  # from a key to its value
    queries,
    context,
    heads,
    dim,
    HEADS: tl.constexpr,
    DIM: tl.constexpr,
):
    b = (tl.program_id(0) // queries).to(tl.int64)
    query = (tl.program_id(0) % queries).to(tl.int64)
    position = tl.load(past_ptr + b).to(tl.int64) + query
    is_real = query < tl.load(new_ptr + b).to(tl.int64)
    # A GPU cannot raise: what has no place is not written.
    if is_real & (position < context):
        row = tl.load(rows_ptr + b).to(tl.int64)
        head = tl.arange(0, HEADS)[:, None]
        column = tl.arange(0, DIM)[None, :]
        real = (head < heads) & (column < dim)
        k_place = b * k_row + query * k_query + head * k_head + column
        v_place = b * v_row + query * v_query + head * v_head + column
        k = tl.load(k_ptr + k_place, mask=real, other=0.0)
        v = tl.load(v_ptr + v_place, mask=real, other=0.0)
        kind = cache_ptr.dtype.element_ty
        target = cache_ptr + ((row * heads + head) * context + position) * dim + column
        tl.store(target, k.to(kind), mask=real)
        tl.store(target + cache_half, v.to(kind), mask=real)


@triton.jit(do_not_specialize=["queries", "positions"])
def _weights_kernel(
    q_ptr,
    cache_ptr,
    slots_ptr,
    lengths_ptr,
    chosen_ptr,
    out_ptr,
    q_row,
    q_query,
    q_head,
    cache_slot,
    cache_head,
    cache_key,
    queries,
    positions,
    num_chosen,
    dim,
    scale,  # times log2 e
    QUERIES: tl.constexpr,
    KEYS: tl.constexpr,
    DIM: tl.constexpr,
):
    row = tl.program_id(2).to(tl.int64)
    number = tl.program_id(1).to(tl.int64)
    head = tl.load(chosen_ptr + number)
    query = tl.program_id(0) * QUERIES + tl.arange(0, QUERIES)
    column = tl.arange(0, DIM)
    in_head = column < dim
    start = q_ptr + row * q_row + head * q_head
    real = (query < queries)[:, None] & in_head[None, :]
    q = tl.load(start + query[:, None] * q_query + column[None, :], mask=real, other=0.0)
    q = q.to(cache_ptr.dtype.element_ty)
    length = tl.minimum(tl.load(lengths_ptr + row).to(tl.int32), positions)
    held = cache_ptr + tl.load(slots_ptr + row).to(tl.int64) * cache_slot + head * cache_head
    best = tl.full([QUERIES], float("-inf"), tl.float32)
    weight = tl.zeros([QUERIES], tl.float32)
    for first in range(0, length, KEYS):
        key = first + tl.arange(0, KEYS)
        readable = (key < length)[:, None] & in_head[None, :]
        k = tl.load(held + key[:, None] * cache_key + column[None, :], mask=readable, other=0.0)
        scores = product(q, tl.trans(k)) * scale
        scores = tl.where((key < length)[None, :], scores, float("-inf"))
        top = tl.maximum(best, tl.max(scores, 1))  # finite: every turn has a key
        weight = weight * tl.exp2(best - top) + tl.sum(tl.exp2(scores - top[:, None]), 1)
        best = top
    target = out_ptr + ((row * num_chosen + number) * queries + query[:, None]) * positions
    for first in range(0, length, KEYS):
        key = first + tl.arange(0, KEYS)
        readable = (key < length)[:, None] & in_head[None, :]
        k = tl.load(held + key[:, None] * cache_key + column[None, :], mask=readable, other=0.0)
        scores = product(q, tl.trans(k)) * scale
        share = tl.exp2(scores - best[:, None]) / weight[:, None]
        written = (query < queries)[:, None] & (key < length)[None, :]
        tl.store(target + key[None, :], share, mask=written)
