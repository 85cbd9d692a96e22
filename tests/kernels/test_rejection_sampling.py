"""What is kept of a draft, and that the outcome is distributed as the model says."""

from __future__ import annotations

import torch
from torch import Tensor

from lookhear.kernels import rejection_sample
from lookhear.kernels.sampling_noise import gumbel

TARGET = torch.tensor([0.45, 0.25, 0.15, 0.1, 0.05, 0.0])
PROPOSAL = torch.tensor([0.05, 0.15, 0.2, 0.1, 0.3, 0.2])
DRAWS = 20_000


def outcomes(proposal: Tensor | None) -> Tensor:
    """Frequencies of the first token over many seeds, the draft drawn with the plain noise."""
    seeds = torch.arange(DRAWS)
    positions = torch.full((DRAWS,), 7)
    if proposal is None:
        first = torch.full((DRAWS,), 2)
    else:
        noise = gumbel(seeds[:, None], positions[:, None], torch.arange(len(proposal)))
        first = (proposal.log() + noise).argmax(dim=-1)
    draft = torch.stack([first, torch.zeros_like(first)], dim=1)
    scores = None if proposal is None else proposal.log().expand(DRAWS, 2, -1)
    verified = rejection_sample(
        TARGET.log().expand(DRAWS, 2, -1), scores, draft, torch.ones_like(first), seeds, positions
    )
    return torch.bincount(verified.choices[:, 0], minlength=len(TARGET)) / DRAWS


def test_the_first_token_is_distributed_as_the_target() -> None:
    # Three standard deviations of the largest share; with the draft's own noise it would be 0.03.
    for proposal in (PROPOSAL, None, TARGET):
        assert (outcomes(proposal) - TARGET).abs().max() < 0.0106


def test_what_is_impossible_is_never_kept_nor_recovered() -> None:
    assert outcomes(PROPOSAL)[5] == 0


def test_a_draft_of_the_models_own_stays_whole_and_one_more_follows() -> None:
    scores = torch.full((1, 3, 5), -torch.inf)
    for place, token in enumerate((4, 1, 2)):
        scores[0, place, token] = 0.0
    one = torch.tensor([1])
    draft = torch.tensor([[4, 1, 0]])
    whole = rejection_sample(scores, None, draft, one * 2, one, one)
    assert whole.accepted.tolist() == [2] and whole.next_token.tolist() == [2]
    part = rejection_sample(scores, None, torch.tensor([[4, 3, 0]]), one * 2, one, one)
    assert part.accepted.tolist() == [1] and part.next_token.tolist() == [1]
    none = rejection_sample(scores, None, draft, one * 0, one, one)
    assert none.accepted.tolist() == [0] and none.next_token.tolist() == [4]


def test_a_row_does_not_depend_on_the_others() -> None:
    generator = torch.Generator().manual_seed(0)
    target, proposal = torch.randn(2, 4, 3, 50, generator=generator) * 2
    draft = torch.randint(50, (4, 3), generator=generator)
    lengths, seeds = torch.tensor([2, 0, 1, 2]), torch.tensor([3, 3, -1, 2**60])
    all_rows = (target, proposal, draft, lengths, seeds, torch.tensor([0, 5, 2**40, 1]))
    together = rejection_sample(*all_rows)
    for b in range(4):
        alone = rejection_sample(*(x[b : b + 1] for x in all_rows))
        assert all(torch.equal(x[0], y[b]) for x, y in zip(alone, together, strict=True))
