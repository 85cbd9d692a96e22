"""From logits to tokens: greedy choice, and draws without a state.

The noise of a draw is a function of (seed, position, token id) alone. So a token depends neither on
the other rows of its batch, nor on its place among them, nor on what was drawn before; and a draft
can be verified at all of its positions at once.
"""

from __future__ import annotations

import torch
from torch import Tensor

from lookhear.kernels.choice import has_triton
from lookhear.kernels.sampling_stages import temper

# Every value of `gumbel` lies between -3.63 and 36.75, so a token that is this much below the best
# score of its row can never win.
NOISE_RANGE = 41.0
_GOLDEN = -7046029254386353131  # 2^64 / golden ratio, as a signed 64-bit number
_CHUNK = 256
_FEW = 8192  # numbers in all: looking at each takes less time than the operators around chunks


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


def gumbel(seeds: Tensor, positions: Tensor, tokens: Tensor) -> Tensor:
    """Standard Gumbel noise, float64, of the shape that the three int64 tensors broadcast to.

    argmax(log p + noise) over the tokens of one (seed, position) is a draw from p.
    """
    bits = _mix(_mix(_mix(seeds) + positions) + tokens * _GOLDEN)
    # 53 bits and a half: never 0 or 1, and the tail near 1 resolved to 1e-16.
    numbers = (((bits >> 11) & ((1 << 53) - 1)).double() + 0.5) * 2.0**-53
    numbers.clamp_(max=1.0 - 2.0**-53)  # the topmost half would round to 1
    return numbers.log_().neg_().log_().neg_()


@has_triton
def draw(scores: Tensor, seeds: Tensor, positions: Tensor) -> Tensor:
    """One token of softmax(scores) per row: scores [n, vocab] float32, -inf where a token may not
    be drawn; seeds, positions [n] int64. Returns tokens [n] int64, the lowest id among equals.

    A row without a finite score gets some token of the vocabulary.
    """
    if scores.device.type != "cpu":
        tokens = torch.arange(scores.shape[1], device=scores.device)
        noise = gumbel(seeds[:, None], positions[:, None], tokens)
        return (scores + noise.to(scores.dtype)).argmax(dim=-1)
    # Row by row, and only where the noise can reach the best: what top-k and top-p left, or what
    # a low temperature did. The tokens are the same, at a fraction of the arithmetic.
    drawn = torch.empty_like(seeds)
    for i, row in enumerate(scores):
        # Not "above": a comparison with NaN is false, and there must be a candidate.
        candidates = (~(row < row.max() - NOISE_RANGE)).nonzero().squeeze(1)
        noise = gumbel(seeds[i], positions[i], candidates)
        drawn[i] = candidates[(row[candidates] + noise.to(row.dtype)).argmax()]
    return drawn


@has_triton
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


@has_triton
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


def _mix(x: Tensor) -> Tensor:
    """SplitMix64's finaliser (Steele et al., 2014) on int64, whose products wrap around."""
    x = x + _GOLDEN
    x = (x ^ ((x >> 30) & ((1 << 34) - 1))) * -4658895280553007687
    x = (x ^ ((x >> 27) & ((1 << 37) - 1))) * -7723592293110705685
    return x ^ ((x >> 31) & ((1 << 33) - 1))
