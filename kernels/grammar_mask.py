"""Tokens that a grammar allows, as the bits that grammar libraries compute."""

from __future__ import annotations

import torch
from torch import Tensor

from kernels.choice import has_triton

WORD = 32  # tokens of one word


@has_triton("grammar_mask")
def allow_bits_(scores: Tensor, rows: Tensor, bits: Tensor) -> None:
    """In the rows [k] int64 nothing but the tokens whose bit is set may be chosen.

    scores: [n, vocab] float32, contiguous, in place. bits: [k, ceil(vocab / 32)] int32, that of
    token t is bit t % 32 of word t // 32 (the layout of xgrammar and llguidance). -inf stands for
    "never"; a NaN stays one. Rows that are not named are not touched; no row twice.
    """
    vocab = scores.shape[1]
    assert bits.shape == (len(rows), -(-vocab // WORD)) and bits.dtype == torch.int32, bits.shape
    places = torch.arange(WORD, dtype=torch.int32, device=bits.device)
    allowed = ((bits[:, :, None] >> places) & 1).flatten(1)[:, :vocab].bool()
    old = scores[rows]
    scores.index_copy_(0, rows, torch.where(allowed, old, old - torch.inf))
