"""Attention over keys and values that lie in blocks, and the write that puts them there.

The tokens of a step are packed: those of row 0, then of row 1, and so on; then padding, if any.
Token t of a row lives in its block table's entry t // block, at place t % block. A slot is one
place of the whole cache: block id * block + place. Block 0 is trash: padding goes there.

A cache may be in float8 (e4m3) without a scale: numbers of that kind have exponents of their own,
and keys are of normalised heads, values of normalised inputs; what is beyond 448 is 448. Products
and probabilities are then in the queries' dtype.

The torch version loops over rows and reads only the blocks that a row's length covers, so what
other blocks hold, NaN included, cannot reach it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from lookhear.kernels.choice import has_triton
from lookhear.kernels.fp8 import FP8, LARGEST

# Queries of one product at most: their scores stay in the processor's cache, and what none of them
# may see is not computed. 512 tokens take 0.4 times as long as in one product.
QUERIES = 64


class Span(NamedTuple):
    """A row of a step as the host knows it. blocks: those that its tokens lie in. first: the slot
    of its first token if its blocks are neighbours, in order; else -1."""

    past: int
    new: int
    blocks: list[int]
    first: int


def spans(
    block_tables: Tensor, past_lengths: Tensor, query_lengths: Tensor, block: int
) -> list[Span]:
    """The rows of a step, read back from the arguments of `paged_attention`. block: tokens of one.

    A function of the step, so that it is done once and not in every layer.
    """
    found = []
    lengths = zip(past_lengths.tolist(), query_lengths.tolist(), strict=True)
    for (past, new), table in zip(lengths, block_tables.tolist(), strict=True):
        count = -(-(past + new) // block)
        assert count <= len(table), (past, new, len(table))
        blocks = table[:count]
        first = blocks[0] if blocks else 0
        is_run = blocks == list(range(first, first + count))
        found.append(Span(past, new, blocks, first * block if is_run else -1))
    return found


def paged_write(k: Tensor, v: Tensor, cache: Tensor, slots: Tensor) -> None:
    """Puts the keys and values of new tokens into their slots, in place.

    k, v: [tokens, kv_heads, dim]; cache: [2, blocks, block, kv_heads, dim] (one layer), keys then
    values; slots: [tokens] int64, those of block 0 for padding. Real slots must differ.
    """
    places = cache.flatten(1, 2)  # a view: the cache is contiguous
    if cache.dtype == FP8:  # bytes can be copied everywhere
        places = places.view(torch.uint8)
        k, v = (x.clamp(-LARGEST, LARGEST).to(FP8).view(torch.uint8) for x in (k, v))
    places[0].index_copy_(0, slots, k.to(places.dtype))
    places[1].index_copy_(0, slots, v.to(places.dtype))


@has_triton
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
    """Causal attention of packed new tokens over their own row's blocks.

    q: [tokens, heads, dim], heads a multiple of kv_heads: query head h reads key head
    h // (heads // kv_heads). cache: [2, blocks, block, kv_heads, dim] (one layer), the new tokens
    already written. block_tables: [rows, max_blocks] int64, entries beyond a row's length are
    not looked at. past_lengths, query_lengths: [rows] int64; query i of a row sees its tokens
    0 .. past + i, of which the last `window` alone if that is given. scale: default dim ** -0.5.
    The softmax is in float32. known: `spans` of the tables and lengths, for the torch version,
    which reads them back otherwise.
    Returns [tokens, heads, dim] in q's dtype, zero for padding.
    """
    heads, dim = q.shape[1:]
    kv_heads = cache.shape[3]
    assert heads % kv_heads == 0, (heads, kv_heads)
    kind = q.dtype if cache.dtype == FP8 else cache.dtype
    query = q.to(kind) * (dim**-0.5 if scale is None else scale)
    if known is None:
        known = spans(block_tables, past_lengths, query_lengths, cache.shape[2])
    if len(known) == len(q) and all(span.new == 1 for span in known):
        # As few operators as can be: one token's arithmetic takes less time than calling them.
        steps = []
        for one, span in zip(query.view(len(q), kv_heads, -1, dim), known, strict=True):
            keys, values = _row(cache, span, kind)
            if window is not None:
                keys, values = keys[:, -window:], values[:, -window:]
            weights = torch.softmax(torch.bmm(one, keys.transpose(1, 2)), -1)
            steps.append(torch.bmm(weights, values))
        stepped = steps[0] if len(steps) == 1 else torch.stack(steps)
        return stepped.view(q.shape).to(q.dtype)
    out = torch.zeros(q.shape, dtype=kind, device=q.device)
    start = 0
    for span in known:
        if span.new == 0:
            continue
        end = start + span.new
        keys, values = _row(cache, span, kind)
        for first in range(start, end, QUERIES):
            last = min(first + QUERIES, end)
            seen = span.past + last - start
            oldest = 0 if window is None else max(0, span.past + first - start + 1 - window)
            near = keys[:, oldest:seen], values[:, oldest:seen]
            out[first:last] = _attend(query[first:last], *near, window)
        start = end
    return out.to(q.dtype)


def _attend(query: Tensor, keys: Tensor, values: Tensor, window: int | None) -> Tensor:
    """query: [new, heads, dim], those of the last tokens; keys, values: [kv_heads, total, dim].
    Returns [new, heads, dim]."""
    new, heads, dim = query.shape
    kv_heads, total, _ = keys.shape
    group = heads // kv_heads
    # All query heads that read one key head go into one product: [kv_heads, group * new, dim].
    mine = query.view(new, kv_heads, group, dim).permute(1, 2, 0, 3)
    scores = torch.bmm(mine.reshape(kv_heads, group * new, dim), keys.transpose(1, 2))
    if new > 1:
        later = torch.ones(new, new, dtype=torch.bool, device=query.device).triu_(1)
        recent = scores.view(kv_heads, group, new, total)[..., total - new :]
        recent.masked_fill_(later, -torch.inf)
        if window is not None and total > window:
            ahead = torch.ones(new, total, dtype=torch.bool, device=query.device)
            scores.view(kv_heads, group, new, total).masked_fill_(
                ahead.tril_(total - new - window), -torch.inf
            )
    # Sums are in float32 whatever the dtype.
    mixed = torch.bmm(torch.softmax(scores, -1), values).view(kv_heads, group, new, dim)
    return mixed.permute(2, 0, 1, 3).reshape(new, heads, dim)


def _row(cache: Tensor, span: Span, kind: torch.dtype) -> tuple[Tensor, Tensor]:
    """Keys and values of all of a row's tokens: [kv_heads, total, dim] each, in that dtype.

    Blocks that happen to be neighbours are read in place; others are gathered.
    """
    total = span.past + span.new
    if span.first >= 0:
        held = cache.flatten(1, 2)[:, span.first : span.first + total]
    else:  # five times as fast as cache[:, blocks]
        blocks = torch.tensor(span.blocks, device=cache.device)
        held = cache.index_select(1, blocks).flatten(1, 2)[:, :total]
    held = held.transpose(1, 2).to(kind)  # [2, kv_heads, total, dim]
    if cache.dtype != torch.float32:
        # A bfloat16 product over strided keys takes ten times as long as over a copy of them;
        # a float32 one loses a tenth, which is less than the copy.
        held = held.contiguous()
    keys, values = held.unbind(0)
    return keys, values
