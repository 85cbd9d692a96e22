"""Triton's verification of drafts and its grammar mask against torch's."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from lookhear.kernels import allow_bits_, rejection_sample, verify_tokens
from lookhear.kernels.triton import grammar_mask
from lookhear.kernels.triton import rejection_sampling as triton_rejection

INF = float("inf")
# What a GPU does in silence, numpy mentions.
pytestmark = [
    pytest.mark.filterwarnings("ignore:invalid value"),
    pytest.mark.filterwarnings("ignore:overflow"),
    pytest.mark.filterwarnings("ignore:divide by zero"),
]


def draw(seed: int, *shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)) * 3.0


def test_a_draft_counts_up_to_the_first_disagreement_and_its_length() -> None:
    choices = torch.tensor([[4, 5, 6, 7]] * 5)
    draft = torch.tensor([[4, 5, 6, 9], [4, 5, 6, 9], [4, 1, 6, 9], [1, 5, 6, 9], [4, 5, 6, 9]])
    lengths = torch.tensor([3, 2, 3, 3, 0])
    ours = triton_rejection.verify_tokens(choices, draft, lengths)
    theirs = verify_tokens(choices, draft, lengths)
    assert ours.accepted.tolist() == theirs.accepted.tolist() == [3, 2, 1, 0, 0]
    assert ours.next_token.tolist() == theirs.next_token.tolist() == [7, 6, 5, 4, 4]
    none = triton_rejection.verify_tokens(choices[:0], draft[:0], lengths[:0])
    assert none.accepted.shape == none.next_token.shape == (0,)


@pytest.mark.parametrize("queries", [1, 5, 123])
def test_verification_of_any_length_and_stride(queries: int) -> None:
    generator = torch.Generator().manual_seed(0)
    wide = torch.randint(2, (6, 2 * queries + 3), generator=generator)
    choices, draft = wide[:, :queries], wide[:, queries : 2 * queries]
    draft[0] = choices[0]
    lengths = torch.tensor([queries - 1, 0, 3, 1, 2, queries - 1]).clamp(max=queries - 1)
    for ours, theirs in zip(
        triton_rejection.verify_tokens(choices, draft, lengths),
        verify_tokens(choices, draft, lengths),
        strict=True,
    ):
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize("has_proposal", [True, False])
@pytest.mark.parametrize(("batch", "queries", "vocab"), [(3, 4, 5), (2, 3, 123), (2, 2, 5000)])
def test_what_is_kept_and_recovered(
    batch: int, queries: int, vocab: int, has_proposal: bool
) -> None:
    target, proposal = draw(0, batch, queries, vocab), draw(1, batch, queries, vocab)
    target[0, :, 2] = -INF
    proposal[1, :, 3] = -INF
    lengths = torch.tensor([queries - 1, 1, 0][:batch])
    for seed in range(4):
        generator = torch.Generator().manual_seed(seed)
        draft = torch.randint(vocab, (batch, queries), generator=generator)
        draft[0, 0] = int(target[0, 0].argmax())
        seeds = torch.tensor([seed, 2**63 - 1, -5][:batch])
        positions = torch.tensor([seed * 1000, 7, 2**40][:batch])
        arguments = (target, proposal if has_proposal else None, draft, lengths, seeds, positions)
        ours = triton_rejection.rejection_sample(*arguments)
        theirs = rejection_sample(*arguments)
        for mine, other in zip(ours[:2], theirs[:2], strict=True):
            assert torch.equal(mine, other)


def test_of_no_rows_nothing_is_launched() -> None:
    index = torch.zeros(0, dtype=torch.int64)
    none = triton_rejection.rejection_sample(
        torch.zeros(0, 2, 7), None, torch.zeros(0, 2, dtype=torch.int64), index, index, index
    )
    assert none.accepted.shape == (0,)
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
