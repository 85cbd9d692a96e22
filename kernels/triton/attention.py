"""Attention over keys that lie in a row: those of a batch, of a slot, or of a window.

One kernel for the encoders' attention and for the decoders' over slots: a batch is a cache whose
slots are in order. Windows of packed tokens have their own, which finds out whose piece it has.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from lookhear.kernels.triton.configs import tile
from lookhear.kernels.triton.softmax import attended, joined, num_splits, scaled_exp2

MIN_ROWS = 16  # of a product: what the tensor cores take
MAX_ROWS = 128
# From so many on, tiles without masks are worth a ragged last one that is not fetched ahead (see
# `attended`); and with two loops two programs of the encoder have room on a multiprocessor.
WHOLE_KEYS = 256


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    causal_offset: int | None = None,
    key_lengths: Tensor | None = None,
    scale: float | None = None,
) -> Tensor:
    """softmax(scale * q k^T) v per head; products and sums in float32.

    q: [batch, queries, heads, dim]; k, v: [batch, keys, heads, dim]; any float dtype, views of any
    stride. causal_offset: query i sees keys 0 .. causal_offset + i. key_lengths: [batch] int64,
    keys beyond it are not read. scale: default dim ** -0.5. Returns [batch, queries, heads, dim] in
    q's dtype, zero where a query sees nothing. Grid: (pieces of queries, heads, batch * splits).
    """
    return attention_over(q, k, v, causal_offset=causal_offset, lengths=key_lengths, scale=scale)


def attention_over(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    slots: Tensor | None = None,
    lengths: Tensor | None = None,
    past_lengths: Tensor | None = None,
    causal_offset: int | None = None,
    scale: float | None = None,
) -> Tensor:
    """`attention` over rows of a cache.

    k, v: [slots, keys, heads, dim], any strides; slots: [batch] int64, whose keys a row of q
    reads; default: its own.

    lengths: [batch] int64, keys that are real. With past_lengths, [batch] int64, it is the number
    of new tokens instead, whose keys follow the past's: query i < length sees past + i + 1 keys,
    others none. Grid and result as for `attention`.
    """
    batch, queries, heads, dim = q.shape
    out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    if out.numel() == 0:
        return out
    q, k, v = (x if x.stride(3) == 1 else x.contiguous() for x in (q, k, v))
    max_keys = k.shape[1]
    # float32 is multiplied in registers, which hold little.
    most = MIN_ROWS if k.element_size() > 2 else MAX_ROWS
    rows = min(most, max(MIN_ROWS, triton.next_power_of_2(queries)))
    kernel = "decode attention" if rows == MIN_ROWS else "encoder attention"
    keys, warps, stages = tile(kernel, dim)
    if k.element_size() > 2:
        keys //= 2
    padded_dim = max(16, triton.next_power_of_2(dim))
    pieces = triton.cdiv(queries, rows)
    splits = num_splits(pieces * heads * batch, max_keys)
    parts = sums = out
    if splits > 1:
        shape = (splits, batch * queries * heads)
        parts = torch.empty((*shape, dim), dtype=torch.float32, device=q.device)
        sums = torch.empty((2, *shape), dtype=torch.float32, device=q.device)
    _attend_kernel[(pieces, heads, batch * splits)](
        q,
        k,
        v,
        parts,
        sums,
        q if slots is None else slots,
        q if lengths is None else lengths,
        q if past_lengths is None else past_lengths,
        q.stride(0),
        q.stride(1),
        q.stride(2),
        k.stride(0),
        k.stride(1),
        k.stride(2),
        v.stride(0),
        v.stride(1),
        v.stride(2),
        batch,
        queries,
        max_keys,
        heads,
        dim,
        -1 if causal_offset is None else causal_offset,
        scaled_exp2(dim, scale),
        HAS_SLOTS=slots is not None,
        HAS_LENGTHS=lengths is not None,
        HAS_PAST=past_lengths is not None,
        IS_CAUSAL=causal_offset is not None,
        PRODUCT=rows,
        KEYS=keys,
        DIM=padded_dim,
        SPLITS=splits,
        IS_PADDED=dim < padded_dim,
        IS_WHOLE=rows > MIN_ROWS and dim == padded_dim and max_keys >= WHOLE_KEYS,
        num_warps=warps,
        num_stages=stages,
    )
    if splits > 1:
        joined(parts, sums, out)
    return out


def windowed_attention(
    q: Tensor, k: Tensor, v: Tensor, bounds: Tensor, *, scale: float | None = None
) -> Tensor:
    """Attention of packed tokens over all tokens of their own window.

    q, k, v: [tokens, heads, dim], any strides and float dtypes; bounds: [windows + 1] int64, window
    w is tokens bounds[w] .. bounds[w + 1]; the first is 0, tokens from the last on are padding.
    scale: default dim ** -0.5. Returns [tokens, heads, dim] in q's dtype, zero for padding.
    Grid: (pieces of queries, heads). Nothing is read back: it can be captured.
    """
    tokens, heads, dim = q.shape
    windows = len(bounds) - 1
    out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    if out.numel() == 0:
        return out
    if windows == 0:
        return out.zero_()
    q, k, v = (x if x.stride(2) == 1 else x.contiguous() for x in (q, k, v))
    rows = MIN_ROWS if k.element_size() > 2 else 64
    kernel = "decode attention" if rows == MIN_ROWS else "prefill attention"
    keys, warps, stages = tile(kernel, dim)
    if k.element_size() > 2:
        keys //= 2
    padded_dim = max(16, triton.next_power_of_2(dim))
    _window_kernel[(triton.cdiv(tokens, rows) + windows, heads)](
        q,
        k,
        v,
        bounds,
        out,
        q.stride(0),
        q.stride(1),
        k.stride(0),
        k.stride(1),
        v.stride(0),
        v.stride(1),
        tokens,
        windows,
        heads,
        dim,
        scaled_exp2(dim, scale),
        WINDOWS=triton.next_power_of_2(windows),
        PRODUCT=rows,
        KEYS=keys,
        DIM=padded_dim,
        IS_PADDED=dim < padded_dim,
        IS_WHOLE=False,
        num_warps=warps,
        num_stages=stages,
    )
    return out


@triton.jit(do_not_specialize=["batch", "queries"])
def _attend_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    out_ptr,  # the parts, if there are several
    sums_ptr,
    slots_ptr,
    lengths_ptr,
    past_ptr,
    q_row,
    q_query,
    q_head,
    k_slot,
    k_key,
    k_head,
    v_slot,
    v_key,
    v_head,
    batch,
    queries,
    max_keys,
    heads,
    dim,
    causal_offset,
    scale,  # times log2 e
    HAS_SLOTS: tl.constexpr,
    HAS_LENGTHS: tl.constexpr,
    HAS_PAST: tl.constexpr,
    IS_CAUSAL: tl.constexpr,
    PRODUCT: tl.constexpr,
    KEYS: tl.constexpr,
    DIM: tl.constexpr,
    SPLITS: tl.constexpr,
    IS_PADDED: tl.constexpr,
    IS_WHOLE: tl.constexpr,
):
    head = tl.program_id(1).to(tl.int64)
    row = (tl.program_id(2) // SPLITS).to(tl.int64)
    split = (tl.program_id(2) % SPLITS).to(tl.int64)
    query = tl.program_id(0) * PRODUCT + tl.arange(0, PRODUCT)
    column = tl.arange(0, DIM)
    real = (query < queries)[:, None] & (column < dim)[None, :]

    slot = row
    if HAS_SLOTS:
        slot = tl.load(slots_ptr + row).to(tl.int64)
    length = max_keys
    if HAS_LENGTHS:
        length = tl.load(lengths_ptr + row).to(tl.int32)
    visible = tl.zeros([PRODUCT], tl.int32) + length
    if HAS_PAST:
        past = tl.load(past_ptr + row).to(tl.int32)
        visible = tl.where(query < length, past + query + 1, 0)
    if IS_CAUSAL:
        visible = tl.minimum(visible, causal_offset + query + 1)
    total = tl.minimum(tl.max(tl.where(query < queries, visible, 0), 0), max_keys)

    start = q_ptr + row * q_row + head * q_head
    q = tl.load(start + query[:, None] * q_query + column[None, :], mask=real, other=0.0)
    part = tl.cdiv(tl.cdiv(total, SPLITS), KEYS) * KEYS
    begin = split.to(tl.int32) * part
    best, weight, mixed = attended(
        q.to(k_ptr.dtype.element_ty),
        k_ptr + slot * k_slot + head * k_head,
        v_ptr + slot * v_slot + head * v_head,
        k_key,
        v_key,
        begin,
        tl.minimum(begin + part, total),
        visible,
        dim,
        scale,
        PRODUCT,
        KEYS,
        DIM,
        IS_PADDED,
        IS_WHOLE,
    )
    line = (row * queries + query) * heads + head
    if SPLITS == 1:
        y = mixed / tl.where(weight > 0.0, weight, 1.0)[:, None]
        target = out_ptr + line[:, None] * dim + column[None, :]
        tl.store(target, y.to(out_ptr.dtype.element_ty), mask=real)
    else:
        count = batch * queries * heads
        place = split * count + line
        tl.store(out_ptr + place[:, None] * dim + column[None, :], mixed, mask=real)
        tl.store(sums_ptr + place, best, mask=query < queries)
        tl.store(sums_ptr + SPLITS * count + place, weight, mask=query < queries)


@triton.jit(do_not_specialize=["tokens", "windows"])
def _window_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    bounds_ptr,
    out_ptr,
    q_token,
    q_head,
    k_token,
    k_head,
    v_token,
    v_head,
    tokens,
    windows,
    heads,
    dim,
    scale,  # times log2 e
    WINDOWS: tl.constexpr,
    PRODUCT: tl.constexpr,
    KEYS: tl.constexpr,
    DIM: tl.constexpr,
    IS_PADDED: tl.constexpr,
    IS_WHOLE: tl.constexpr,
):
    # Whose piece is this? Pieces are numbered window by window.
    number = tl.program_id(0)
    index = tl.arange(0, WINDOWS)
    exists = index < windows
    starts = tl.load(bounds_ptr + index, mask=exists, other=0).to(tl.int32)
    lengths = tl.load(bounds_ptr + 1 + index, mask=exists, other=0).to(tl.int32) - starts
    needed = (lengths + PRODUCT - 1) // PRODUCT
    window = tl.sum((tl.cumsum(needed, 0) <= number).to(tl.int32), 0)  # those that end before it
    piece = number - tl.sum(tl.where(index < window, needed, 0), 0)
    first = tl.sum(tl.where(index < window, lengths, 0), 0)

    head = tl.program_id(1).to(tl.int64)
    query = piece * PRODUCT + tl.arange(0, PRODUCT)
    token = (first + query).to(tl.int64)
    column = tl.arange(0, DIM)
    in_head = (column < dim)[None, :]
    target = out_ptr + (token * heads + head)[:, None] * dim + column[None, :]
    kind = out_ptr.dtype.element_ty
    if window >= WINDOWS:  # nobody's: padding, counted from the last real token on
        zero = tl.zeros([PRODUCT, DIM], tl.float32).to(kind)
        tl.store(target, zero, mask=(token < tokens)[:, None] & in_head)
    else:
        length = tl.load(bounds_ptr + window + 1).to(tl.int32) - first
        real = (query < length)[:, None] & in_head
        source = q_ptr + token[:, None] * q_token + head * q_head + column[None, :]
        q = tl.load(source, mask=real, other=0.0)
        start = first.to(tl.int64)
        best, weight, mixed = attended(
            q.to(k_ptr.dtype.element_ty),
            k_ptr + start * k_token + head * k_head,
            v_ptr + start * v_token + head * v_head,
            k_token,
            v_token,
            0,
            length,
            tl.zeros([PRODUCT], tl.int32) + length,
            dim,
            scale,
            PRODUCT,
            KEYS,
            DIM,
            IS_PADDED,
            IS_WHOLE,
        )
        y = mixed / tl.where(weight > 0.0, weight, 1.0)[:, None]
        tl.store(target, y.to(kind), mask=real)
