"""Triton's grammar mask against torch's."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from lookhear.kernels import allow_bits_
from lookhear.kernels.triton import grammar_mask

INF = float("inf")
# What a GPU does in silence, numpy mentions.
pytestmark = [
    pytest.mark.filterwarnings("ignore:invalid value"),
    pytest.mark.filterwarnings("ignore:overflow"),
    pytest.mark.filterwarnings("ignore:divide by zero"),
]


def draw(seed: int, *shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)) * 3.0


def test_of_no_rows_nothing_is_launched() -> None:
    index = torch.zeros(0, dtype=torch.int64)
    scores = draw(0, 2, 7)
    before = scores.clone()
    grammar_mask.allow_bits_(scores, index, torch.zeros(0, 1, dtype=torch.int32))
    assert torch.equal(scores, before)


@pytest.mark.parametrize("vocab", [5, 123, 1023, 5000])
def test_grammar_mask(vocab: int) -> None:
    ours = draw(0, 4, vocab)
    ours[3, 2], ours[1, 1] = torch.nan, INF
    theirs = ours.clone()
    words = torch.randint(
        -(2**31), 2**31, (2, -(-vocab // 32)), generator=torch.Generator().manual_seed(1)
    ).int()
    rows = torch.tensor([3, 1])
    grammar_mask.allow_bits_(ours, rows, words)
    allow_bits_(theirs, rows, words)
    torch.testing.assert_close(ours, theirs, equal_nan=True, atol=0, rtol=0)
