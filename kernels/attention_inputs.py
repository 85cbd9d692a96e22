"""What lies between a fused projection and paged attention, as one operation."""

from __future__ import annotations

import torch
from torch import Tensor

from lookhear.kernels.choice import has_triton
from lookhear.kernels.norms import rms_norm
from lookhear.kernels.paged_attention import paged_write
from lookhear.kernels.rope import rope


@has_triton
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

    qkv: [tokens, heads + 2 * kv_heads, dim]: queries, keys, values. weight: [heads + kv_heads, dim]
    of `rms_norm`; None: they are not normalised. cos, sin: of `rope_angles`. cache: [2, blocks,
    block, kv_heads, dim] and slots: [tokens] as for `paged_write`. Returns the queries, [tokens,
    heads, dim].
    """
    kv_heads = cache.shape[3]
    heads = qkv.shape[1] - 2 * kv_heads
    qk, v = torch.split(qkv, [heads + kv_heads, kv_heads], dim=1)
    # Queries and keys are treated alike: one call of each for both.
    qk = rope(qk if weight is None else rms_norm(qk, weight, eps), cos, sin)
    q, k = torch.split(qk, [heads, kv_heads], dim=1)
    paged_write(k, v, cache, slots)
    return q
