"""Verification of drafts: what is kept, what is recovered, and how far a row's draft agrees."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from lookhear.kernels.sampling import Verified
from lookhear.kernels.triton.configs import tile
from lookhear.kernels.triton.sampling import _mixed, _sums_kernel


def verify_tokens(choices: Tensor, draft: Tensor, draft_lengths: Tensor) -> Verified:
    """How many of a row's draft tokens agree with the model's choices, from the first on.

    choices, draft: [batch, queries] int64; draft_lengths: [batch] int64, at most queries - 1.
    Returns `Verified`; choices is the one that was given. Grid: (batch,).
    """
    batch, queries = choices.shape
    accepted = torch.empty(batch, dtype=torch.int64, device=choices.device)
    chosen = torch.empty_like(accepted)
    if choices.numel() > 0:
        _verify_kernel[(batch,)](
            choices,
            draft,
            draft_lengths,
            accepted,
            chosen,
            choices.stride(0),
            choices.stride(1),
            draft.stride(0),
            draft.stride(1),
            queries,
            QUERIES=triton.next_power_of_2(queries),
            num_warps=1,
        )
    return Verified(accepted, chosen, choices)


def rejection_sample(
    target: Tensor,
    proposal: Tensor | None,
    draft: Tensor,
    draft_lengths: Tensor,
    seeds: Tensor,
    positions: Tensor,
) -> Verified:
    """Keeps draft token d if u q(d) < p(d), u uniform; else draws from max(p - q, 0), normalised,
    by argmax(log(max(p - q, 0)) + Gumbel noise). Behind the draft q is 0.

    target: [batch, queries, vocab] float32, p = softmax(target); proposal: the same of q, or None:
    q is 1 at the draft; draft: [batch, queries] int64; draft_lengths, seeds, positions: [batch]
    int64. The noise is a function of (seed, position, token), of other keys than a draft's draw.
    Returns `Verified`. Grid: (batch * queries, chunks) to sum, once more to recover, (batch *
    queries,) to decide, (batch,) to verify. Probabilities in float32, noise in float64.
    """
    batch, queries, vocab = target.shape
    assert target.dtype == torch.float32, target.dtype
    assert proposal is None or proposal.shape == target.shape, (proposal, target)
    n = batch * queries
    choices = torch.empty((batch, queries), dtype=torch.int64, device=target.device)
    if n == 0:
        return verify_tokens(choices, draft, draft_lengths)
    size, warps, _ = tile("vocabulary", vocab)
    chunks = triton.cdiv(vocab, size)
    target = target.contiguous()
    proposal = None if proposal is None else proposal.contiguous()
    sums = torch.empty((2, 2, n, chunks), dtype=torch.float32, device=target.device)
    for part, scores in zip(sums, (target, proposal), strict=True):
        if scores is not None:
            _sums_kernel[(n, chunks)](
                scores, part, vocab, n, vocab, chunks, SIZE=size, num_warps=warps
            )
    values = torch.empty((n, chunks), dtype=torch.float32, device=target.device)
    indices = torch.empty((n, chunks), dtype=torch.int32, device=target.device)
    several = triton.next_power_of_2(chunks)
    shared = (
        target,
        target if proposal is None else proposal,
        sums,
        draft.contiguous(),
        draft_lengths,
        seeds,
        positions,
        values,
        indices,
    )
    counts = (n, queries, vocab, chunks)
    has_proposal = proposal is not None
    _recover_kernel[(n, chunks)](
        *shared, *counts, HAS_PROPOSAL=has_proposal, CHUNKS=several, SIZE=size, num_warps=warps
    )
    _decide_kernel[(n,)](
        *shared, choices, *counts, HAS_PROPOSAL=has_proposal, CHUNKS=several, num_warps=1
    )
    return verify_tokens(choices, draft, draft_lengths)


@triton.jit
def _verify_kernel(
    choices_ptr,
    draft_ptr,
    lengths_ptr,
    accepted_ptr,
    chosen_ptr,
    choices_row,
    choices_query,
    draft_row,
    draft_query,
    queries,
    QUERIES: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    query = tl.arange(0, QUERIES)
    real = query < queries
    choice = tl.load(choices_ptr + row * choices_row + query * choices_query, mask=real, other=0)
    draft = tl.load(draft_ptr + row * draft_row + query * draft_query, mask=real, other=0)
    length = tl.minimum(tl.load(lengths_ptr + row), queries - 1)
    agrees = (choice == draft) & (query < length)
    accepted = tl.min(tl.where(agrees, QUERIES, query), 0)  # the first that does not
    tl.store(accepted_ptr + row, accepted.to(tl.int64))
    chosen = tl.sum(tl.where(query == accepted, choice, 0), 0)
    tl.store(chosen_ptr + row, chosen)


@triton.jit
def _whole(sums_ptr, row, n, chunks, CHUNKS: tl.constexpr):
    """Of a row of scores: the greatest, and the sum of exp(score - greatest)."""
    chunk = tl.arange(0, CHUNKS)
    real = chunk < chunks
    best = tl.load(sums_ptr + row * chunks + chunk, mask=real, other=float("-inf"))
    total = tl.load(sums_ptr + (n + row) * chunks + chunk, mask=real, other=0.0)
    top = tl.max(best, 0)
    top = tl.where(top == float("-inf"), 0.0, top)
    return top, tl.sum(total * tl.exp(best - top), 0)


@triton.jit
def _uniform(bits):
    numbers = ((bits >> 11) & 9007199254740991).to(tl.float64) + 0.5
    return tl.minimum(numbers * 1.1102230246251565e-16, 0.9999999999999999)


@triton.jit(do_not_specialize=["n", "queries"])
def _recover_kernel(
    target_ptr,
    proposal_ptr,
    sums_ptr,
    draft_ptr,
    lengths_ptr,
    seeds_ptr,
    positions_ptr,
    values_ptr,
    indices_ptr,
    n,
    queries,
    vocab,
    chunks,
    HAS_PROPOSAL: tl.constexpr,
    CHUNKS: tl.constexpr,
    SIZE: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    chunk = tl.program_id(1)
    b, query = row // queries, row % queries
    token = chunk * SIZE + tl.arange(0, SIZE)
    real = token < vocab
    top, whole = _whole(sums_ptr, row, n, chunks, CHUNKS)
    x = tl.load(target_ptr + row * vocab + token, mask=real, other=float("-inf"))
    rest = tl.exp(x - top) / whole
    if query < tl.load(lengths_ptr + b):
        if HAS_PROPOSAL:
            q_top, q_whole = _whole(sums_ptr + 2 * n * chunks, row, n, chunks, CHUNKS)
            y = tl.load(proposal_ptr + row * vocab + token, mask=real, other=float("-inf"))
            rest = rest - tl.exp(y - q_top) / q_whole
        else:
            rest = tl.where(token == tl.load(draft_ptr + row), 0.0, rest)
    # A row's key in a block of its own, so that nothing is computed with scalars.
    seed = tl.load(seeds_ptr + b + token * 0) ^ 1442695040888963407
    position = tl.load(positions_ptr + b + token * 0) + query
    bits = _mixed(_mixed(_mixed(seed) + position) + token.to(tl.int64) * -7046029254386353131)
    noise = (-tl.log(-tl.log(_uniform(bits)))).to(tl.float32)
    score = tl.where(rest > 0.0, tl.log(tl.where(rest > 0.0, rest, 1.0)) + noise, float("-inf"))
    best = tl.max(score, 0)
    tl.store(values_ptr + row * chunks + chunk, best)
    tl.store(indices_ptr + row * chunks + chunk, tl.min(tl.where(score == best, token, vocab), 0))


@triton.jit(do_not_specialize=["n", "queries"])
def _decide_kernel(
    target_ptr,
    proposal_ptr,
    sums_ptr,
    draft_ptr,
    lengths_ptr,
    seeds_ptr,
    positions_ptr,
    values_ptr,
    indices_ptr,
    choices_ptr,
    n,
    queries,
    vocab,
    chunks,
    HAS_PROPOSAL: tl.constexpr,
    CHUNKS: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    b, query = row // queries, row % queries
    chunk = tl.arange(0, CHUNKS)
    real = chunk < chunks
    values = tl.load(values_ptr + row * chunks + chunk, mask=real, other=float("-inf"))
    indices = tl.load(indices_ptr + row * chunks + chunk, mask=real, other=vocab)
    index = tl.min(tl.where(values == tl.max(values, 0), indices, vocab), 0)
    choice = tl.minimum(index, vocab - 1).to(tl.int64)
    if query < tl.load(lengths_ptr + b):
        draft = tl.load(draft_ptr + row)
        top, whole = _whole(sums_ptr, row, n, chunks, CHUNKS)
        p = tl.exp(tl.load(target_ptr + row * vocab + draft) - top) / whole
        q = p * 0.0 + 1.0
        if HAS_PROPOSAL:
            q_top, q_whole = _whole(sums_ptr + 2 * n * chunks, row, n, chunks, CHUNKS)
            q = tl.exp(tl.load(proposal_ptr + row * vocab + draft) - q_top) / q_whole
        seed = tl.load(seeds_ptr + b + chunk * 0) ^ 6364136223846793005
        position = tl.load(positions_ptr + b + chunk * 0) + query
        keeping = tl.max(_uniform(_mixed(_mixed(_mixed(seed) + position))), 0)
        choice = tl.where(keeping * q.to(tl.float64) < p.to(tl.float64), draft, choice)
    tl.store(choices_ptr + row, choice)
