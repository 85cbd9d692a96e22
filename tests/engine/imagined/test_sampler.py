"""Every stage of the sampler on an imagined card: the tokens of a CPU, one copy back, no wait."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from lookhear.engine.sampling.params import SamplingParams
from lookhear.engine.sampling.sampler import Sampler, SamplingRow
from tests.engine.imagined.card import CUDA, Phase
from tests.engine.imagined.launches import imagine, present

VOCAB = 300


class Third:
    """A grammar of every third token."""

    def fill(self, bits: NDArray[np.int32]) -> None:
        allowed = np.arange(32 * len(bits)) % 3 == 0
        bits[:] = np.packbits(allowed, bitorder="little").view(np.int32)


KINDS = (
    SamplingParams(),
    SamplingParams(temperature=0.9, seed=3),
    SamplingParams(temperature=0.7, seed=4, top_k=9, top_p=0.8, min_p=0.01, logprobs=3),
    SamplingParams(repetition_penalty=1.3, presence_penalty=0.4, frequency_penalty=0.2),
    SamplingParams(logit_bias=((5, 4.0), (7, -9.0)), suppressed_tokens=(1, 2)),
    SamplingParams(allowed_tokens=(3, 30, 299), temperature=1.2, seed=5),
    SamplingParams(stop_tokens=(4,), min_tokens=9, logprobs=1),
)


@pytest.mark.parametrize("kinds", [KINDS, KINDS[:1], KINDS[1:3], (KINDS[2],) * 3, KINDS[3:]])
def test_it_chooses_as_on_a_cpu(
    kinds: tuple[SamplingParams, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [
        SamplingRow(params, 40 + i, (5, 9, 5, i), 2, Third() if i % 3 == 2 else None)
        for i, params in enumerate(kinds)
    ]
    values = np.random.default_rng(7).normal(size=(len(rows), VOCAB)).astype(np.float32) * 3
    expected = Sampler(VOCAB, torch.device("cpu")).sample(torch.from_numpy(values.copy()), rows)
    card, launches = imagine(monkeypatch)
    with torch.inference_mode(), present(card):
        sampler, logits = Sampler(VOCAB, CUDA), torch.from_numpy(values.copy()).to(CUDA)
        with card.during(Phase.SERVING):
            choice = sampler.launch(logits, rows)
            assert choice.tokens.is_cuda and card.num["fetched"] == 1
            sampled = choice.read()
    assert sampled.tokens == expected.tokens and sampled.top == expected.top
    np.testing.assert_allclose(sampled.logprobs, expected.logprobs, atol=1e-5)
    assert sampled.bad == [] and launches.num > 0
