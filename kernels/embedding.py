"""Token embedding plus learnt position."""

from __future__ import annotations

from torch import Tensor

from lookhear.kernels.choice import has_triton


@has_triton
def embed_tokens(
    tokens: Tensor, positions: Tensor, token_table: Tensor, position_table: Tensor
) -> Tensor:
    """token_table[tokens] + position_table[positions].

    tokens, positions: int64 of one shape [...]; token_table: [vocab, width]; position_table:
    [context, width]. Returns [..., width] in the latter's dtype; the large table may be kept in a
    smaller one.
    """
    places = position_table[positions]
    return places.add_(token_table[tokens])
