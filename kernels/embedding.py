"""Token embedding plus learnt position."""

from __future__ import annotations

from torch import Tensor


def embed_tokens(
    tokens: Tensor, positions: Tensor, token_table: Tensor, position_table: Tensor
) -> Tensor:
    """token_table[tokens] + position_table[positions].

    tokens, positions: int64 of one shape [...]; token_table: [vocab, width]; position_table:
    [context, width]. Returns [..., width].
    """
    return token_table[tokens].add_(position_table[positions])
