"""From logits to tokens: greedy choice, verification of a draft, and sampling with fixed noise."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from lookhear.kernels.choice import has_triton
from lookhear.kernels.sampling_noise import draw
from lookhear.kernels.sampling_stages import temper


class Verified(NamedTuple):
    """accepted: [batch] draft tokens agreed with. next_token: [batch] the model's choice after
    them. choices: [batch, queries] its choice at every query, valid up to index `accepted`."""

    accepted: Tensor
    next_token: Tensor
    choices: Tensor


def greedy(logits: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """The most probable allowed token of each row (the lowest id among equals).

    logits: [n, vocab] float32. mask: float [vocab] or [n, vocab], added to the logits: 0 where a
    token may be chosen, -inf where not. Returns tokens [n] int64 and their natural-log
    probabilities [n] among allowed tokens; a row that holds a NaN has a NaN probability.
    """
    if mask is not None:
        logits = logits + mask
    tokens = argmax(logits)
    return tokens, token_logprobs(logits, tokens)


def verify_greedy(
    logits: Tensor, draft: Tensor, draft_lengths: Tensor, mask: Tensor | None = None
) -> Verified:
    """How much of a draft the model itself would have written, all positions at once.

    logits: [batch, queries, vocab], where logits[:, i] predict what draft[:, i] proposes.
    draft: [batch, queries] int64; draft_lengths: [batch], at most queries - 1, so that there is a
    prediction after a draft accepted whole. mask: as in `greedy`, also [batch, queries, vocab].
    """
    if mask is not None:
        logits = logits + mask
    choices = argmax(logits.flatten(0, 1)).view(logits.shape[:2])
    return verify_tokens(choices, draft, draft_lengths)


@has_triton("rejection_sampling")
def verify_tokens(choices: Tensor, draft: Tensor, draft_lengths: Tensor) -> Verified:
    """`verify_greedy` for choices [batch, queries] that were made already."""
    queries = torch.arange(choices.shape[1], device=choices.device)
    agrees = (choices == draft) & (queries[None, :] < draft_lengths[:, None])
    accepted = agrees.long().cumprod(dim=1).sum(dim=1)
    return Verified(accepted, choices.gather(1, accepted[:, None]).squeeze(1), choices)


def sample(
    logits: Tensor,
    temperature: Tensor,
    seeds: Tensor,
    positions: Tensor,
    mask: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Draws a token of softmax(logits / temperature) in each row; temperature 0 is greedy.

    logits: [n, vocab] float32; temperature: [n] float32; seeds, positions: [n] int64. The noise is
    a function of (seed, position, token) alone, so a row's token depends neither on its batch nor
    on what was drawn before. mask: as in `greedy`. Returns tokens [n] and their log probabilities
    [n] at temperature 1.
    """
    if mask is not None:
        logits = logits + mask
    warm = temperature > 0.0
    drawn = draw(temper(logits, torch.where(warm, temperature, 1.0)), seeds, positions)
    tokens = torch.where(warm, drawn, argmax(logits))
    return tokens, token_logprobs(logits, tokens)


@has_triton("sampling")
def token_logprobs(logits: Tensor, tokens: Tensor) -> Tensor:
    """Natural-log probability of one token per row: logits [n, vocab], tokens [n] -> [n].

    By log_softmax, not logsumexp: that takes twice as long on a CPU, and the order in which it
    adds up a row depends on how many rows there are.
    """
    return torch.log_softmax(logits, dim=-1).gather(-1, tokens[:, None]).squeeze(-1)


def top_logprobs(logits: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The `count` most probable tokens per row, best first: tokens [n, count], log probs alike."""
    tokens = logits.topk(count, dim=-1).indices
    return tokens, torch.log_softmax(logits, dim=-1).gather(-1, tokens)


_CHUNK = 256
_FEW = 8192  # numbers in all: looking at each takes less time than the operators around chunks


@has_triton("sampling")
def argmax(x: Tensor) -> Tensor:
    """The highest number's index in each row of x [n, vocab], the first of equals: [n] int64.

    torch's own looks at one number at a time on a CPU. The maxima of chunks are vectorised; then
    only the best chunk is searched: 6 times faster on 16 rows of 51,865.
    """
    vocab = x.shape[1]
    whole = vocab // _CHUNK * _CHUNK
    if x.device.type != "cpu" or whole == 0 or x.numel() <= _FEW:
        return x.argmax(dim=-1)
    maxima = x[:, :whole].reshape(len(x), -1, _CHUNK).amax(dim=-1)
    if whole < vocab:
        maxima = torch.cat([maxima, x[:, whole:].amax(dim=-1, keepdim=True)], dim=1)
    start = maxima.argmax(dim=-1, keepdim=True) * _CHUNK
    # Beyond the end the last id repeats; the first of equals is still the right one.
    ids = (start + torch.arange(_CHUNK)).clamp_(max=vocab - 1)
    return (start + x.gather(1, ids).argmax(dim=-1, keepdim=True)).squeeze(-1)
