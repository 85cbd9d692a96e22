"""Requests that nobody made. They use what no captured graph does, so that no kernel is compiled,
and no table made, while somebody waits for an answer."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from lookhear.engine.core.request import Phase, Priority
from lookhear.engine.core.runner import Failure, Runner, Running
from lookhear.engine.paged.request import PagedRequest
from lookhear.engine.sampling.params import SamplingParams
from lookhear.engine.sampling.sampler import Sampler, SamplingRow
from lookhear.engine.whisper.request import WhisperRequest

log = logging.getLogger(__name__)

R = TypeVar("R")
S = TypeVar("S", bound=Running)

# Together they use every stage of the sampler.
SAMPLINGS = (
    SamplingParams(logit_bias=((0, 1.0),), repetition_penalty=1.1, presence_penalty=0.1),
    SamplingParams(temperature=1.0, top_k=2, top_p=0.9, min_p=0.1, seed=1, logprobs=1),
)


class AnyToken:
    """A grammar of anything. See `engine.sampling.sampler.TokenMask`."""

    def fill(self, bits: NDArray[np.int32]) -> None:
        bits.fill(-1)


def mask(sampler: Sampler, vocab: int, device: torch.device) -> None:
    """What a grammar lets through is masked by a kernel, too."""
    row = SamplingRow(SamplingParams(), 0, grammar=AnyToken())
    sampler.sample(torch.zeros((1, vocab), device=device), [row])


def paged_requests() -> list[PagedRequest]:
    """Shorter than a block, so that nothing of them is found by others."""
    return [
        PagedRequest("", Priority.BATCH, (0, 1), max_new_tokens=2, sampling=sampling)
        for sampling in SAMPLINGS
    ]


def whisper_requests(start_token: int, windows: Sequence[int]) -> list[WhisperRequest]:
    """Silence of every window's length in samples, drawn with a temperature, words timed."""
    return [
        WhisperRequest(
            "", Priority.BATCH, np.zeros(window, np.float32), window, (start_token,), None, False,
            (), max_new_tokens=2, temperature=1.0, align=True,
        )
        for window in windows
    ]  # fmt: skip


def run(runner: Runner[R, S], requests: Sequence[R]) -> None:
    """One after the other, each to its end. What fails is said, and may still serve others."""
    for request in requests:
        sequence = runner.place(request)
        failures: list[Failure] = []
        while sequence.phase is not Phase.DONE and not failures:
            failures = runner.launch([(sequence, sequence.demand().known)]).wait().failures
        if failures:
            log.warning("warming up: %s: %s", failures[0].code, failures[0].message)
        runner.release(sequence)
