"""Token embedding plus learnt position."""

from __future__ import annotations

import torch
from torch import Tensor

from lookhear.kernels.choice import has_triton


@has_triton
def embed_tokens(
    tokens: Tensor, positions: Tensor, token_table: Tensor, position_table: Tensor
) -> Tensor:
    """token_table[tokens] + position_table[positions].

    tokens, positions: int64 of one shape [...]; token_table: [vocab, width], or on a CPU one that
    `pack_table` gave; position_table: [context, width]. Returns [..., width] in the latter's dtype;
    the large table may be kept in a smaller one.
    """
    places = position_table[positions]
    if token_table.dtype != torch.uint8:
        return places.add_(token_table[tokens])
    ids = tokens.flatten()
    # A bag is a sum; these are of one row each.
    bags = torch.arange(len(ids))
    rows = torch.ops.quantized.embedding_bag_byte_rowwise_offsets(token_table, ids, bags)
    return places.add_(rows.view(places.shape))


def pack_table(table: Tensor) -> Tensor:
    """table: [vocab, width] float32 on a CPU. The same in 8 bits, uint8 [vocab, width + 8]: behind
    each row stand its step and its least value, float32. See `embed_tokens`."""
    packed: Tensor = torch.ops.quantized.embedding_bag_byte_prepack(table)
    return packed
