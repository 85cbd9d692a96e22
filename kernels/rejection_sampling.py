"""Verification of a draft that was drawn, not chosen (Leviathan et al., 2023; Chen et al., 2023).

A draft token d is kept with probability min(1, p(d) / q(d)), p being the model's distribution and q
the one d was drawn from; else a token is recovered from max(p - q, 0), normalised. What comes out
is distributed as p, whatever q was.

The noise is a function of (seed, position, token), as everywhere, but of other keys than a draft's
own draw: with one noise for both, a recovered token would be biased towards what the draft nearly
drew.
"""

from __future__ import annotations

import torch
from torch import Tensor

from lookhear.kernels.choice import has_triton
from lookhear.kernels.sampling import Verified, verify_tokens
from lookhear.kernels.sampling_noise import gumbel, uniform

# What seeds are changed by, so that neither decision shares its noise with a draw, or the other.
KEEPING = 0x5851F42D4C957F2D
RECOVERING = 0x14057B7EF767814F


@has_triton("rejection_sampling")
def rejection_sample(
    target: Tensor,
    proposal: Tensor | None,
    draft: Tensor,
    draft_lengths: Tensor,
    seeds: Tensor,
    positions: Tensor,
) -> Verified:
    """How much of each row's draft stays, and the token after that.

    target: [batch, queries, vocab] float32, scores whose softmax is p: what temperature and cuts
    left, -inf where a token may not be drawn; target[:, i] are those of what draft[:, i] proposes.
    proposal: [batch, queries, vocab], the same of q; or None where the draft was certain (the last
    hypothesis): q is 1 at the draft. draft: [batch, queries] int64; draft_lengths: [batch] int64,
    at most queries - 1. seeds, positions: [batch] int64; query i has noise of position + i.

    Returns `Verified`: behind a draft kept whole, a token drawn from p. choices beyond index
    `accepted` mean nothing.
    """
    batch, queries, vocab = target.shape
    tokens = torch.arange(vocab, device=target.device)
    at = torch.arange(queries, device=target.device)
    places = positions[:, None] + at
    is_draft = at < draft_lengths[:, None]
    proposed = torch.where(is_draft, draft, 0)
    p = torch.softmax(target, dim=-1)
    if proposal is None:
        q = torch.zeros_like(p).scatter_(2, proposed[:, :, None], 1.0)
    else:
        q = torch.softmax(proposal, dim=-1)
    q = torch.where(is_draft[:, :, None], q, 0.0)  # behind the draft there is nothing to subtract
    p_draft, q_draft = (x.gather(2, proposed[:, :, None])[:, :, 0].double() for x in (p, q))
    keeping = uniform((seeds ^ KEEPING)[:, None], places)
    stays = is_draft & (keeping * q_draft < p_draft)
    noise = gumbel((seeds ^ RECOVERING)[:, None, None], places[:, :, None], tokens)
    rest = (p - q).clamp_(min=0.0).log()
    recovered = (rest + noise.float()).argmax(dim=-1)
    return verify_tokens(torch.where(stays, proposed, recovered), draft, draft_lengths)
