"""Attention of every query over a batch of equally shaped keys: the encoder's, and the oracle."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


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
