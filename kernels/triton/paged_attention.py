"""Attention over paged keys and values: decoding and prefill by one kernel.

How many tokens each row has is known on the device alone, and asking would stop the launches; so
the grid is the most that can be needed, and every program finds its row by itself. What is left
over zeroes the padding. A program has several queries of one row and all query heads that read one
key head, as the rows of one product: the keys are read once for all of them.

Where there are few programs, as in decoding, each row's keys are cut into `splits` parts of equal
length (of what the row has, not of what it may have), and a second kernel joins the parts.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from lookhear.kernels.fp8 import FP8
from lookhear.kernels.paged_attention import Span
from lookhear.kernels.triton.configs import tile
from lookhear.kernels.triton.softmax import folded, joined, num_splits, product, scaled_exp2

MIN_ROWS = 16  # of a product: what the tensor cores take
PREFILL_ROWS = 64


def paged_attention(
    q: Tensor,
    cache: Tensor,
    block_tables: Tensor,
    past_lengths: Tensor,
    query_lengths: Tensor,
    *,
    scale: float | None = None,
    known: Sequence[Span] | None = None,
    window: int | None = None,
) -> Tensor:
    """softmax(scale * q k^T) v of packed new tokens, causal, over their own row's blocks.

    q: [tokens, heads, dim], heads a multiple of kv_heads: query head h reads key head
    h // (heads // kv_heads). cache: [2, blocks, block, kv_heads, dim] (one layer), the new tokens
    already written. block_tables: [rows, max_blocks] int64; past_lengths, query_lengths: [rows]
    int64; query i of a row sees its tokens 0 .. past + i, of which the last `window` alone if that
    is given. Any float dtypes; q is read in cache's, and a cache in float8 in q's. scale: default
    dim ** -0.5. known: not needed here. Returns [tokens, heads, dim] in q's dtype, zero for
    padding.

    Products and sums in float32, probabilities rounded to the cache's dtype. Grid: (pieces of
    queries, kv_heads, splits), then (tokens * heads,) to join. Places that no row's length covers
    are not read. Nothing is read back, and for one shape the launch is always the same: it can be
    captured. A table shorter than its row cannot be noticed here; entries are not checked.
    """
    tokens, heads, dim = q.shape
    kv_heads = cache.shape[3]
    assert heads % kv_heads == 0, (heads, kv_heads)
    assert cache.is_contiguous() and q.dim() == 3, (cache.shape, q.shape)
    rows, max_blocks = block_tables.shape
    out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    if out.numel() == 0:
        return out
    if rows == 0 or max_blocks == 0:
        return out.zero_()
    if q.stride(2) != 1:
        q = q.contiguous()
    group = heads // kv_heads
    is_decoding = tokens <= rows
    is_wide = (q if cache.dtype == FP8 else cache).element_size() > 2  # what is multiplied
    is_small = is_decoding or is_wide  # float32 is multiplied in registers
    product = max(MIN_ROWS if is_small else PREFILL_ROWS, triton.next_power_of_2(group))
    piece = product // group  # queries of one program
    pieces = triton.cdiv(tokens, piece) + rows  # a row's last piece may be short, and padding's
    keys, warps, stages = tile("decode attention" if is_small else "prefill attention", dim)
    if is_wide:
        keys //= 2
    splits = num_splits(pieces * kv_heads, max_blocks * cache.shape[2])
    parts = out
    sums = out
    if splits > 1:
        parts = torch.empty((splits, tokens, heads, dim), dtype=torch.float32, device=q.device)
        # Of each part: the greatest score and the sum of exponentials below it.
        sums = torch.empty((2, splits, tokens, heads), dtype=torch.float32, device=q.device)
    padded_dim = max(16, triton.next_power_of_2(dim))
    _attend_kernel[(pieces, kv_heads, splits)](
        q,
        cache,
        block_tables.contiguous(),
        past_lengths,
        query_lengths,
        parts,
        sums,
        tokens,
        rows,
        max_blocks,
        q.stride(0),
        q.stride(1),
        cache.stride(0),
        dim,
        heads,
        scaled_exp2(dim, scale),
        0 if window is None else window,
        ROWS=triton.next_power_of_2(rows),
        BLOCK=cache.shape[2],
        KV_HEADS=kv_heads,
        GROUP=group,
        PIECE=piece,
        PRODUCT=product,
        KEYS=keys,
        DIM=padded_dim,
        SPLITS=splits,
        IS_PADDED=dim < padded_dim,
        IS_FP8=cache.dtype == FP8,
        HAS_WINDOW=window is not None,
        num_warps=warps,
        # The table's entries are fetched a turn before the keys that they lead to.
        num_stages=stages if is_small else max(stages, 3),
    )
    if splits > 1:
        joined(parts.flatten(1, 2), sums.flatten(2), out)
    return out


@triton.jit(do_not_specialize=["tokens", "rows", "max_blocks", "window"])
def _attend_kernel(
    q_ptr,
    cache_ptr,
    tables_ptr,
    past_ptr,
    new_ptr,
    out_ptr,  # the parts, if there are several
    sums_ptr,
    tokens,
    rows,
    max_blocks,
    q_token,
    q_head,
    cache_half,  # from a key to its value
    dim,
    heads,
    scale,  # times log2 e
    window,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    KV_HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    PIECE: tl.constexpr,
    PRODUCT: tl.constexpr,
    KEYS: tl.constexpr,
    DIM: tl.constexpr,
    SPLITS: tl.constexpr,
    IS_PADDED: tl.constexpr,
    IS_FP8: tl.constexpr,
    HAS_WINDOW: tl.constexpr,
):
    # Whose piece is this? Pieces are numbered row by row.
    number = tl.program_id(0)
    index = tl.arange(0, ROWS)
    lengths = tl.load(new_ptr + index, mask=index < rows, other=0).to(tl.int32)
    needed = (lengths + PIECE - 1) // PIECE
    ends = tl.cumsum(needed, 0)
    row = tl.sum((ends <= number).to(tl.int32), 0)  # rows that end before it
    before = index < row
    first_piece = tl.sum(tl.where(before, needed, 0), 0)
    first_token = tl.sum(tl.where(before, lengths, 0), 0)

    head = tl.program_id(1)
    line = tl.arange(0, PRODUCT)  # of the product: query by query, all heads of the group
    query = (number - first_piece) * PIECE + line // GROUP
    column = tl.arange(0, DIM)
    in_head = column < dim
    token = (first_token + query).to(tl.int64)
    lane = head * GROUP + line % GROUP
    place = token * heads + lane
    if row >= ROWS:  # nobody's: padding, counted from the last real token on
        real = (line < PIECE * GROUP) & (token < tokens)
        if SPLITS == 1:
            zero = tl.zeros([PRODUCT, DIM], tl.float32).to(out_ptr.dtype.element_ty)
            target = out_ptr + place[:, None] * dim + column[None, :]
            tl.store(target, zero, mask=real[:, None] & in_head[None, :])
        else:  # joined, this becomes zero
            nothing = tl.full([PRODUCT], float("-inf"), tl.float32)
            split = tl.program_id(2).to(tl.int64)
            tl.store(sums_ptr + split * tokens * heads + place, nothing, mask=real)
    else:
        new = tl.load(new_ptr + row).to(tl.int32)
        past = tl.load(past_ptr + row).to(tl.int32)
        real = (line < PIECE * GROUP) & (query < new)
        source = q_ptr + token[:, None] * q_token + lane[:, None] * q_head + column[None, :]
        q = tl.load(source, mask=real[:, None] & in_head[None, :], other=0.0)
        if not IS_FP8:
            q = q.to(cache_ptr.dtype.element_ty)

        last_query = tl.minimum((number - first_piece + 1) * PIECE, new)
        total = past + last_query  # keys that the last query of this piece sees
        oldest = 0  # key that the first query of this piece sees
        if HAS_WINDOW:
            first_query = (number - first_piece) * PIECE
            oldest = tl.maximum(past + first_query + 1 - window, 0)
        part = tl.cdiv(tl.cdiv(total - oldest, SPLITS), KEYS) * KEYS
        begin = oldest + tl.program_id(2) * part
        end = tl.minimum(begin + part, total)

        best = tl.full([PRODUCT], float("-inf"), tl.float32)
        weight = tl.zeros([PRODUCT], tl.float32)
        mixed = tl.zeros([PRODUCT, DIM], tl.float32)
        table = tables_ptr + row.to(tl.int64) * max_blocks
        held = cache_ptr + head * dim + column[None, :]
        last = tl.minimum(past + query + 1, end)[:, None]  # the first key that a query does not see
        for start in range(begin, end, KEYS):
            key = start + tl.arange(0, KEYS)
            # What lies beyond the row's length is not read, zero times a NaN would be a NaN: the
            # last key again, which costs less than masks.
            real_key = tl.minimum(key, end - 1).to(tl.uint32)
            block = tl.load(table + real_key // BLOCK)
            # int64: a cache has more than 2^31 elements.
            slot = block.to(tl.uint32) * BLOCK + real_key % BLOCK
            step = slot.to(tl.int64) * (KV_HEADS * dim)
            if IS_PADDED:
                k = tl.load(held + step[:, None], mask=in_head[None, :], other=0.0)
                v = tl.load(held + cache_half + step[:, None], mask=in_head[None, :], other=0.0)
            else:
                k = tl.load(held + step[:, None])
                v = tl.load(held + cache_half + step[:, None])
            if IS_FP8:
                k = k.to(q.dtype)
                v = v.to(q.dtype)
            seen = key[None, :] < last
            if HAS_WINDOW:
                seen = seen & (key[None, :] > (past + query - window)[:, None])
            scores = tl.where(seen, product(q, tl.trans(k)), float("-inf"))
            best, weight, mixed = folded(best, weight, mixed, scores, v, scale)
        if SPLITS == 1:
            y = mixed / tl.where(weight > 0.0, weight, 1.0)[:, None]
            target = out_ptr + place[:, None] * dim + column[None, :]
            tl.store(target, y.to(out_ptr.dtype.element_ty), mask=real[:, None] & in_head[None, :])
        else:
            split = tl.program_id(2).to(tl.int64)
            count = tokens * heads
            where = split * count + place
            target = out_ptr + where[:, None] * dim + column[None, :]
            tl.store(target, mixed, mask=real[:, None] & in_head[None, :])
            tl.store(sums_ptr + where, best, mask=real)
            tl.store(sums_ptr + SPLITS * count + where, weight, mask=real)
