"""Self-attention of a decoder layer, from its fused projection on, over a paged cache."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from lookhear.kernels.attention_inputs import norm_rope_write
from lookhear.kernels.choice import has_triton
from lookhear.kernels.paged_attention import Span, paged_attention


@has_triton
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
    """`norm_rope_write`, then `paged_attention` of the queries that it gives; see both.

    qkv: [tokens, heads + 2 * kv_heads, dim]. is_decode: whether every row has one token, so that
    token i is row i's. Returns [tokens, heads, dim].
    """
    q = norm_rope_write(qkv, weight, eps, cos, sin, cache, slots)
    return paged_attention(q, cache, block_tables, past_lengths, query_lengths, known=known)
