from __future__ import annotations

import torch

from lookhear.kernels import allow_bits_


def packed(allowed: torch.Tensor) -> torch.Tensor:
    """bool [k, vocab] to words of 32 bits."""
    k, vocab = allowed.shape
    bits = torch.zeros(k, -(-vocab // 32) * 32, dtype=torch.int64)
    bits[:, :vocab] = allowed
    words = (bits.view(k, -1, 32) << torch.arange(32)).sum(-1)
    return torch.where(words >= 2**31, words - 2**32, words).int()


def test_only_allowed_tokens_stay_and_only_in_the_named_rows() -> None:
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(4, 123, generator=generator)
    allowed = torch.rand(2, 123, generator=generator) < 0.3
    allowed[0, 31] = allowed[1, 63] = True  # the bit that is a sign
    before = scores.clone()
    allow_bits_(scores, torch.tensor([3, 1]), packed(allowed))
    assert torch.equal(scores[[0, 2]], before[[0, 2]])
    for row, wanted in zip((3, 1), allowed, strict=True):
        assert torch.equal(scores[row, wanted], before[row, wanted])
        assert torch.isneginf(scores[row, ~wanted]).all()


def test_a_broken_row_stays_broken() -> None:
    scores = torch.zeros(1, 40)
    scores[0, 7] = torch.nan
    allow_bits_(scores, torch.tensor([0]), torch.zeros(1, 2, dtype=torch.int32))
    assert scores[0, 7].isnan() and torch.isneginf(scores[0, :7]).all()
