"""Attention inside windows of packed tokens: that of encoders whose inputs have many lengths."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor

from lookhear.kernels.attention import attention
from lookhear.kernels.choice import has_triton


@has_triton("attention")
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
