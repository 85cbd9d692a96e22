"""Tokens that a grammar allows, as the bits that grammar libraries compute."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import embedding

from lookhear.kernels.choice import has_triton

WORD = 32  # tokens of one word


@has_triton
def allow_bits_(scores: Tensor, rows: Tensor, bits: Tensor) -> None:
    """In the rows [k] int64 nothing but the tokens whose bit is set may be chosen.

    scores: [n, vocab] float32, contiguous, in place. bits: [k, ceil(vocab / 32)] int32, that of
    token t is bit t % 32 of word t // 32 (the layout of xgrammar and llguidance). -inf stands for
    "never"; a NaN stays one. Rows that are not named are not touched; no row twice.
    """
    vocab = scores.shape[1]
    assert bits.shape == (len(rows), -(-vocab // WORD)) and bits.dtype == torch.int32, bits.shape
    # Eight tokens at a time, by the value of their byte: seven times as fast as bit by bit.
    values = torch.arange(256, device=bits.device)[:, None]
    is_set = (values >> torch.arange(8, device=bits.device)) & 1
    table = torch.where(is_set.bool(), 0.0, -torch.inf)
    amounts = embedding(bits.contiguous().view(torch.uint8).int(), table).flatten(1)
    scores.index_add_(0, rows, amounts[:, :vocab])
