"""Tokens that a grammar allows: one pass over the rows that have one."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from lookhear.kernels.triton.configs import tile


def allow_bits_(scores: Tensor, rows: Tensor, bits: Tensor) -> None:
    """In the rows [k] int64 nothing but the tokens whose bit is set may be chosen.

    scores: [n, vocab] float32, contiguous, in place. bits: [k, ceil(vocab / 32)] int32, that of
    token t is bit t % 32 of word t // 32. A NaN stays one. Grid: (k, vocab / tile); of no rows
    nothing is launched. Scores of allowed tokens are read, but not written.
    """
    vocab = scores.shape[1]
    assert bits.shape == (len(rows), -(-vocab // 32)) and bits.dtype == torch.int32, bits.shape
    assert scores.is_contiguous() and scores.dtype == torch.float32, scores.dtype
    if len(rows) > 0:
        size, warps, _ = tile("vocabulary", vocab)
        _allow_kernel[(len(rows), triton.cdiv(vocab, size))](
            scores,
            rows,
            bits.contiguous(),
            vocab,
            bits.shape[1],
            SIZE=size,
            num_warps=warps,
        )


@triton.jit
def _allow_kernel(scores_ptr, rows_ptr, bits_ptr, vocab, words, SIZE: tl.constexpr):
    number = tl.program_id(0).to(tl.int64)
    row = tl.load(rows_ptr + number)
    token = tl.program_id(1) * SIZE + tl.arange(0, SIZE)
    real = token < vocab
    word = tl.load(bits_ptr + number * words + token // 32, mask=real, other=-1)
    is_allowed = ((word >> (token % 32)) & 1) == 1
    place = scores_ptr + row * vocab + token
    x = tl.load(place, mask=real & (is_allowed == 0), other=0.0)
    tl.store(place, x + float("-inf"), mask=real & (is_allowed == 0))
