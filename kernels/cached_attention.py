"""Attention of new tokens over cached keys and values: a decoder's own, and over the encoder.

A cache is read in place: `cache[row]` is a view, so a step never copies what it does not change.
The torch versions loop over the batch. On a CPU that beats gathering whole slots for every batch
size measured (a row costs about 15 us beside reading it once), and rows cannot touch each other.
Plain products and a softmax: torch's fused attention is several times slower for one bfloat16
query over many keys, and no faster in float32. Caches in half precision save a CPU memory and the
time to read it; it multiplies in float32, as its products in float16 take 2 to 8 times as long and
those in bfloat16 are compiled anew for every length.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from lookhear.kernels.choice import has_triton


@has_triton
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
    positions row_lengths[b] .. row_lengths[b] + query_lengths[b] - 1 of row rows[b] and nowhere
    else. Query i of a row sees cached positions 0 .. row_lengths[b] + i.
    rows, row_lengths, query_lengths: [batch] int64. scale: default dim ** -0.5.
    Returns [batch, queries, heads, dim] in q's dtype, zero for padded queries.
    """
    num_queries = q.shape[1]
    lengths = query_lengths.tolist()
    if num_queries == 1 and all(lengths):
        return _self_attention_step(q, k, v, cache, rows, row_lengths, scale)
    dtype = _product_dtype(cache)
    query = _scaled(q, scale, dtype).transpose(1, 2)  # [batch, heads, queries, dim]
    new_keys, new_values = (x.transpose(1, 2).to(cache.dtype) for x in (k, v))
    out = torch.zeros_like(query, memory_format=torch.contiguous_format)
    later = torch.ones(num_queries, num_queries, dtype=torch.bool, device=q.device).triu_(1)
    for b, (row, past, new) in enumerate(
        zip(rows.tolist(), row_lengths.tolist(), lengths, strict=True)
    ):
        total = past + new
        assert total <= cache.shape[3], (row, past, new, tuple(cache.shape))
        if new == 0:
            continue
        held = cache[:, row, :, :total]
        held[0, :, past:], held[1, :, past:] = new_keys[b, :, :new], new_values[b, :, :new]
        keys, values = held.to(dtype).unbind(0)  # [heads, total, dim]
        scores = torch.bmm(query[b, :, :new], keys.transpose(1, 2))  # [heads, new, total]
        if new > 1:
            scores[:, :, past:].masked_fill_(later[:new, :new], -torch.inf)
        out[b, :, :new] = torch.bmm(torch.softmax(scores, -1), values)
    return out.transpose(1, 2).to(q.dtype)


def _self_attention_step(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cache: Tensor,
    rows: Tensor,
    row_lengths: Tensor,
    scale: float | None,
) -> Tensor:
    """`self_attention_cached` where every row gains one token: as few operators as can be."""
    batch, _, heads, dim = q.shape
    dtype = _product_dtype(cache)
    query = _scaled(q, scale, dtype).view(batch, heads, 1, dim)
    pasts = row_lengths.tolist()
    assert max(pasts) < cache.shape[3], (pasts, tuple(cache.shape))
    if batch > 1:  # one write for all
        cache[0][rows, :, row_lengths] = k[:, 0].to(cache.dtype)
        cache[1][rows, :, row_lengths] = v[:, 0].to(cache.dtype)
    out = []
    for b, (row, past) in enumerate(zip(rows.tolist(), pasts, strict=True)):
        held = cache[:, row, :, : past + 1]
        if batch == 1:
            held[0, :, past], held[1, :, past] = k[0, 0], v[0, 0]
        keys, values = held.to(dtype).unbind(0)  # [heads, past + 1, dim]
        weights = torch.softmax(torch.bmm(query[b], keys.transpose(1, 2)), -1)
        out.append(torch.bmm(weights, values))
    return _joined(out).to(q.dtype)


@has_triton
def cross_attention_cached(
    q: Tensor, cache: Tensor, slots: Tensor, lengths: Tensor, *, scale: float | None = None
) -> Tensor:
    """Attends over the encoder positions kept in each row's slot.

    q: [batch, queries, heads, dim]. cache: [slots, 2, heads, positions, dim] (one layer), keys then
    values, only read. slots, lengths: [batch] int64; positions from lengths[b] on do not exist.
    scale: default dim ** -0.5. Returns [batch, queries, heads, dim] in q's dtype.
    """
    return biased_cross_attention(q, cache, slots, lengths, None, scale=scale)


def biased_cross_attention(
    q: Tensor,
    cache: Tensor,
    slots: Tensor,
    lengths: Tensor,
    bias: Tensor | None,
    *,
    scale: float | None = None,
) -> Tensor:
    """`cross_attention_cached` of positions that count more than once. bias: [slots, positions],
    the logarithms of how often; None: once."""
    dtype = _product_dtype(cache)
    query = _scaled(q, scale, dtype).transpose(1, 2)  # [batch, heads, queries, dim]
    out = []
    for b, (slot, length) in enumerate(zip(slots.tolist(), lengths.tolist(), strict=True)):
        keys, values = cache[slot, :, :, :length].to(dtype).unbind(0)  # [heads, length, dim]
        scores = torch.bmm(query[b], keys.transpose(1, 2))
        if bias is not None:
            scores += bias[slot, :length]
        out.append(torch.bmm(torch.softmax(scores, -1), values))
    return _joined(out).to(q.dtype)


@has_triton
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
    of the result, at least max(lengths), which is the default.
    Returns [batch, chosen heads, queries, positions] float32, zero from lengths[b] on.
    """
    query = _scaled(q, scale, torch.float32).transpose(1, 2)[:, list(heads)]
    if positions is None:
        positions = max(lengths.tolist(), default=0)
    out = query.new_zeros(*query.shape[:3], positions)
    for b, (slot, length) in enumerate(zip(slots.tolist(), lengths.tolist(), strict=True)):
        keys = cache[slot, 0, :, :length][list(heads)].float()
        out[b, :, :, :length] = torch.softmax(torch.bmm(query[b], keys.transpose(1, 2)), -1)
    return out


def _product_dtype(cache: Tensor) -> torch.dtype:
    return torch.float32 if cache.device.type == "cpu" else cache.dtype


def _scaled(q: Tensor, scale: float | None, dtype: torch.dtype) -> Tensor:
    factor = q.shape[-1] ** -0.5 if scale is None else scale
    query = q.to(dtype)
    return query if factor == 1.0 else query * factor


def _joined(rows: list[Tensor]) -> Tensor:
    """[heads, queries, dim] of every row to [batch, queries, heads, dim]."""
    return (rows[0][None] if len(rows) == 1 else torch.stack(rows)).transpose(1, 2)
