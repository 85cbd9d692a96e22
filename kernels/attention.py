"""Attention without a cache: over a batch of equally shaped keys (the encoder's, and the oracle),
and inside windows of packed tokens (encoders whose inputs have many lengths)."""

from __future__ import annotations

from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor

from lookhear.kernels.choice import has_triton

# On a CPU in bfloat16, plain products over pieces of the queries beat torch's fused attention by
# 1.4 times at 1500 positions (it multiplies in float32). A piece's scores should stay in the cache:
# pieces of 3 M scores took 3 to 15 % longer, those below 0.5 M as long.
SCORES = 1_000_000  # of one piece, at most
MIN_QUERIES = 64  # fewer are not worth it
# Products of a new shape are compiled first, which takes 2 ms: numbers of keys that change with
# every call are rounded up.
KEY_STEP = 64


@has_triton
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    causal_offset: int | None = None,
    key_lengths: Tensor | None = None,
    scale: float | None = None,
) -> Tensor:
    """softmax(scale * q k^T) v per head; accumulation in float32 or better.

    q: [batch, queries, heads, dim]; k, v: [batch, keys, heads, dim]; views of any stride.
    causal_offset: query i sees keys 0 .. causal_offset + i. key_lengths: [batch], keys beyond it do
    not exist for that row, whatever they hold. scale: default dim ** -0.5.
    Returns [batch, queries, heads, dim].
    """
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))  # [batch, heads, *, dim]
    num_queries, num_keys = q.shape[2], k.shape[2]
    if key_lengths is None and causal_offset is None:
        if q.dtype == torch.bfloat16 and q.device.type == "cpu" and num_queries >= MIN_QUERIES:
            return _in_pieces(q, k, v, scale)
        return F.scaled_dot_product_attention(q, k, v, scale=scale).transpose(1, 2)
    keys = torch.arange(num_keys, device=q.device)
    visible = torch.ones(1, 1, num_queries, num_keys, dtype=torch.bool, device=q.device)
    if causal_offset is not None:
        queries = torch.arange(num_queries, device=q.device)
        visible = visible & (keys[None, :] <= causal_offset + queries[:, None])
    if key_lengths is not None:
        exists = keys[None, :] < key_lengths[:, None]  # [batch, keys]
        visible = visible & exists[:, None, None, :]
        # Zero times a NaN would still be NaN: what lies beyond a row's length must not be read.
        k = k.masked_fill(~exists[:, None, :, None], 0.0)
        v = v.masked_fill(~exists[:, None, :, None], 0.0)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=visible, scale=scale).transpose(1, 2)


def biased_attention(q: Tensor, k: Tensor, v: Tensor, bias: Tensor, *, scale: float) -> Tensor:
    """softmax(scale * q k^T + bias) v per head, of all queries over all keys.

    q, k, v: as for `attention`. bias: [keys]; the logarithm of how often a key counts.
    Returns [batch, queries, heads, dim].
    """
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    if q.dtype == torch.bfloat16 and q.device.type == "cpu" and q.shape[2] >= MIN_QUERIES:
        return _in_pieces(q, k, v, scale, bias)
    mask = bias.to(q.dtype)[None, None, None]
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale).transpose(1, 2)


@has_triton
def windowed_attention(
    q: Tensor, k: Tensor, v: Tensor, bounds: Tensor, *, scale: float | None = None
) -> Tensor:
    """Attention of packed tokens over all tokens of their own window.

    q, k, v: [tokens, heads, dim]; bounds: [windows + 1] int64, window w is tokens bounds[w] ..
    bounds[w + 1]; the first is 0, tokens from the last on are padding. scale: default dim ** -0.5.
    Returns [tokens, heads, dim] in q's dtype, zero for padding.
    """
    limits = bounds.tolist()
    if limits == [0, len(q)]:
        return attention(q[None], k[None], v[None], scale=scale)[0]
    out = torch.zeros(q.shape, dtype=q.dtype, device=q.device)
    for a, b in pairwise(limits):
        if a < b:
            out[a:b] = attention(q[None, a:b], k[None, a:b], v[None, a:b], scale=scale)[0]
    return out


def _in_pieces(
    q: Tensor, k: Tensor, v: Tensor, scale: float | None, bias: Tensor | None = None
) -> Tensor:
    """q: [batch, heads, queries, dim]; k, v: [batch, heads, keys, dim]; all visible to all. bias:
    [keys], added to the scores.

    Returns [batch, queries, heads, dim]. Sums are in float32, probabilities are rounded.
    """
    batch, heads, queries, dim = q.shape
    factor = dim**-0.5 if scale is None else scale
    out = q.new_empty(batch, queries, heads, dim)
    if bias is not None:
        missing = -k.shape[2] % KEY_STEP
        k, v = (F.pad(x, (0, 0, 0, missing)) for x in (k, v))
        bias = F.pad(bias.to(q.dtype), (0, missing), value=-torch.inf)
    # Over views of other tensors the same products take half as long again.
    q = (q if factor == 1.0 else q * factor).contiguous()
    keys = k.contiguous().transpose(2, 3)
    values = v.contiguous()
    step = max(MIN_QUERIES, SCORES // (heads * values.shape[2]) // MIN_QUERIES * MIN_QUERIES)
    buffer = q.new_empty(heads, min(step, queries), values.shape[2])
    for b in range(batch):
        for start in range(0, queries, step):
            piece = q[b, :, start : start + step]
            scores = buffer[:, : piece.shape[1]]
            torch.bmm(piece, keys[b], out=scores)
            if bias is not None:
                scores += bias
            torch.softmax(scores, -1, out=scores)
            out[b, start : start + step] = torch.bmm(scores, values[b]).transpose(0, 1)
    return out
