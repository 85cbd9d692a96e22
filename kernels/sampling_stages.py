"""What may happen to logits between the model and the choice of a token, one stage at a time.

Every stage changes `scores` [n, vocab] float32 in place, except `temper`, and each row by itself:
its result does not depend on the other rows, to the last bit. A place is a flat index into scores,
row * vocab + token. -inf stands for "never"; a NaN stays one, so that whoever reads the outcome
can tell a broken row.
"""

from __future__ import annotations

import torch
from torch import Tensor

from lookhear.kernels.choice import has_triton


def allow_only_(scores: Tensor, rows: Tensor, places: Tensor) -> None:
    """In the rows [k] int64 nothing but the places [p] int64 may be chosen."""
    flat = scores.view(-1)
    allowed = flat[places]
    scores.index_copy_(0, rows, scores[rows] - torch.inf)  # a fill would hide a NaN
    flat.index_copy_(0, places, allowed)


@has_triton
def add_(scores: Tensor, places: Tensor, amounts: Tensor) -> None:
    """Bias, presence and frequency penalties, and with -inf prohibition. amounts: [p] float32."""
    scores.view(-1).index_add_(0, places, amounts)


@has_triton
def penalise_repeats_(scores: Tensor, places: Tensor, penalties: Tensor) -> None:
    """The repetition penalty of CTRL (Keskar et al., 2019): divides what is positive, multiplies
    what is negative. places: [p], each at most once; penalties: [p] float32, above 1 against."""
    flat = scores.view(-1)
    old = flat[places]
    flat.index_copy_(0, places, torch.where(old < 0, old * penalties, old / penalties))


@has_triton
def temper(scores: Tensor, temperature: Tensor) -> Tensor:
    """scores / temperature, shifted so that the best of a row is 0. temperature: [n], positive.

    The shift changes no probability, and however low the temperature nothing overflows.
    """
    return (scores - scores.amax(dim=-1, keepdim=True)) / temperature[:, None]


@has_triton
def keep_min_p_(scores: Tensor, min_p: Tensor) -> None:
    """Keeps the tokens at least min_p [n] times as probable as the best. 0 keeps all."""
    floor = scores.amax(dim=-1) + min_p.log()
    scores.masked_fill_(scores < floor[:, None], -torch.inf)


@has_triton
def keep_top_k_(scores: Tensor, top_k: Tensor, largest: int) -> None:
    """Keeps the top_k [n] (1 <= top_k <= largest <= vocab) most probable tokens of a row, and
    what is as probable as the last of them: then it matters to nobody in which order equals come.
    """
    best = scores.topk(largest, dim=-1).values
    floor = best.gather(1, top_k[:, None] - 1)
    scores.masked_fill_(scores < floor, -torch.inf)


@has_triton
def keep_top_p_(scores: Tensor, top_p: Tensor) -> None:
    """Keeps a token if all tokens more probable than it have together less than top_p [n].

    The nucleus (Holtzman et al., 2020), with all that are as probable as its last token; the best
    always stays. Probabilities are those of what earlier stages left.
    """
    logprobs = torch.log_softmax(scores, dim=-1)
    vocab = scores.shape[1]
    # Sorting a vocabulary takes 16 times as long as finding its best thousand, which nearly always
    # suffice. Elsewhere looking would cost a wait for the device.
    size = min(_NUCLEUS, vocab) if scores.device.type == "cpu" else vocab
    floor, enough = _nucleus_floor(logprobs, top_p, size)
    if size < vocab and not enough.all():
        short = (~enough).nonzero().squeeze(1)
        floor[short] = _nucleus_floor(logprobs[short], top_p[short], vocab)[0]
    scores.masked_fill_(logprobs < floor[:, None], -torch.inf)


_NUCLEUS = 1024


def _nucleus_floor(logprobs: Tensor, top_p: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """The least log probability in the nucleus, looking at the best `size` tokens: [n]. And
    whether these were enough to tell: bool [n]."""
    best = logprobs.topk(size, dim=-1).values
    # In float64: the sum of 150,000 float32 numbers would be off by more than a token.
    mass = best.exp().cumsum(dim=-1, dtype=torch.float64)
    inside = (mass[:, :-1] < top_p[:, None]).sum(dim=-1)  # the best is in: not counted
    return best.gather(1, inside[:, None]).squeeze(1), ~(mass[:, -1] < top_p)
