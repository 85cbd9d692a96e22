"""Requests that nobody made: they use what no captured graph does, so that no kernel is compiled,
and no table made, while somebody waits for an answer."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from lookhear.engine.core.request import Priority
from lookhear.engine.paged.request import PagedRequest
from lookhear.engine.sampling.params import SamplingParams
from lookhear.engine.sampling.sampler import Sampler, SamplingRow

# Together they use every stage of the sampler.
SAMPLINGS = (
    SamplingParams(logit_bias=((0, 1.0),), repetition_penalty=1.1, presence_penalty=0.1),
    SamplingParams(temperature=1.0, top_k=2, top_p=0.9, min_p=0.1, seed=1, logprobs=1),
)


class AnyToken:
    """A grammar of anything. See `engine.sampling.sampler.TokenMask`."""

    def fill(self, bits: NDArray[np.int32]) -> None:
        """Every token may come."""
        bits.fill(-1)


def warm_up_mask(sampler: Sampler, vocab: int, device: torch.device) -> None:
    """What a grammar lets through is masked by a kernel, too."""
    row = SamplingRow(SamplingParams(), 0, grammar=AnyToken())
    sampler.sample(torch.zeros((1, vocab), device=device), [row])


def paged_requests() -> list[PagedRequest]:
    """Shorter than a block, so that nothing of them is found by others."""
    return [
        PagedRequest("", Priority.BATCH, (0, 1), max_new_tokens=2, sampling=sampling)
        for sampling in SAMPLINGS
    ]
