"""Random draws without a state: noise that is a function of (seed, position, token id) alone.

So a token depends neither on the other rows of its batch, nor on its place among them, nor on what
was drawn before; and a draft can be verified at all of its positions at once.
"""

from __future__ import annotations

import torch
from torch import Tensor

from lookhear.kernels.choice import has_triton

# Every value of `gumbel` lies between -3.63 and 36.75, so a token that is this much below the best
# score of its row can never win.
NOISE_RANGE = 41.0


def gumbel(seeds: Tensor, positions: Tensor, tokens: Tensor) -> Tensor:
    """Standard Gumbel noise, float64, of the shape that the three int64 tensors broadcast to.

    argmax(log p + noise) over the tokens of one (seed, position) is a draw from p.
    """
    return uniform(seeds, positions, tokens).log_().neg_().log_().neg_()


def uniform(seeds: Tensor, positions: Tensor, tokens: Tensor | int = 0) -> Tensor:
    """Numbers between 0 and 1, neither included, float64, by the same rule as `gumbel`."""
    bits = _mix(_mix(_mix(seeds) + positions) + tokens * _GOLDEN)
    # 53 bits and a half: never 0 or 1, and the tail near 1 resolved to 1e-16.
    numbers = (((bits >> 11) & ((1 << 53) - 1)).double() + 0.5) * 2.0**-53
    return numbers.clamp_(max=1.0 - 2.0**-53)  # the topmost half would round to 1


@has_triton("sampling")
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


_GOLDEN = -7046029254386353131  # 2^64 / golden ratio, as a signed 64-bit number


def _mix(x: Tensor) -> Tensor:
    """SplitMix64's finaliser (Steele et al., 2014) on int64, whose products wrap around."""
    x = x + _GOLDEN
    x = (x ^ ((x >> 30) & ((1 << 34) - 1))) * -4658895280553007687
    x = (x ^ ((x >> 27) & ((1 << 37) - 1))) * -7723592293110705685
    return x ^ ((x >> 31) & ((1 << 33) - 1))
