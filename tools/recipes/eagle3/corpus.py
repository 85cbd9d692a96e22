"""What demo-qwen3-vl says about drawn scenes, and what goes into its layers meanwhile.

Answers are the engine's own, greedy: a head has to guess what the model says, right or wrong. The
states are read from where the engine keeps features for a head, with nothing multiplied to them.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from lookhear.engine.core.request import Phase, Priority, StopReason
from lookhear.engine.models.qwen3 import FeatureTap
from lookhear.engine.models.qwen3_vl import Qwen3VLModel
from lookhear.engine.paged.blocks import BLOCK_TOKENS
from lookhear.engine.paged.drafter import Drafter
from lookhear.engine.paged.request import PagedRequest, PagedSequence
from lookhear.engine.paged.runner import PagedRunner
from lookhear.kernels import pack_linear
from tools.recipes.qwen3_vl.evaluate import KINDS, Answerer

LAYERS = (1, 2, 3)  # of four
MOST = 64  # tokens of an answer
CONTEXT = 2048
TOGETHER = 8


class Episode(NamedTuple):
    """tokens: [n] int64, prompt, answer and its end. states: [n - 1, layers * width], of all but
    the end. first: the place of the answer's first token."""

    tokens: Tensor
    states: Tensor
    first: int


class Speaker:
    """The model, asked by kinds of questions and numbers: see `qwen3_vl.evaluate`."""

    def __init__(self, folder: Path) -> None:
        self.answerer = Answerer(folder)
        self.model = Qwen3VLModel.from_folder(folder)
        self.width = self.model.decoder.dims.width

    def raw_tap(self) -> FeatureTap:
        """The states themselves."""
        size = len(LAYERS) * self.width
        return FeatureTap(LAYERS, pack_linear(torch.eye(size)), size)

    def runner(self, tap: FeatureTap) -> PagedRunner:
        """Whose cache keeps features."""
        self.model.decoder.tap = tap
        return PagedRunner(
            self.model,
            max_rows=TOGETHER,
            num_blocks=1 + TOGETHER * CONTEXT // BLOCK_TOKENS,
            max_context=CONTEXT,
            encoder_bytes=0,
            media_parts=1 + len(self.model.encoder.dims.deepstack),
        )

    def requests(self, kind: str, seeds: Sequence[int]) -> list[PagedRequest]:
        """A question of that kind for each number."""
        found = []
        for seed in seeds:
            prompt = self.answerer.prompt(KINDS[kind](random.Random(f"head {kind} {seed}")))
            found.append(
                PagedRequest(
                    f"{kind} {seed}",
                    Priority.BATCH,
                    tuple(prompt.tokens),
                    tuple(prompt.media),
                    max_new_tokens=MOST,
                    loop_room=None,
                )
            )
        return found


def run(
    runner: PagedRunner, requests: Sequence[PagedRequest], drafter: Drafter | None = None
) -> Iterator[PagedSequence]:
    """Each when it is over, before its blocks are anybody else's."""
    runner.drafter = drafter
    running = [runner.place(request) for request in requests]
    while running:
        demands = [(sequence, sequence.demand()) for sequence in running]
        work = [(s, d.known + d.draft) for s, d in demands if not d.waiting]
        failures = runner.launch(work)()
        assert not failures, failures
        for sequence in [s for s in running if s.phase is Phase.DONE]:
            yield sequence
            running.remove(sequence)
            runner.release(sequence)


def episodes(speaker: Speaker, kinds: Sequence[str], seeds: Sequence[int]) -> Iterator[Episode]:
    """All kinds by turns."""
    runner = speaker.runner(speaker.raw_tap())
    features = runner.cache.features
    assert features is not None
    end = min(speaker.model.end_tokens)
    for begin in range(0, len(seeds), TOGETHER):
        for kind in kinds:
            requests = speaker.requests(kind, seeds[begin : begin + TOGETHER])
            for sequence in run(runner, requests):
                if sequence.generated.stop is not StopReason.END:
                    continue
                places = range(len(sequence.context))
                slots = [
                    sequence.blocks[p // BLOCK_TOKENS] * BLOCK_TOKENS + p % BLOCK_TOKENS
                    for p in places
                ]
                yield Episode(
                    torch.tensor([*sequence.context, end]),
                    features[slots].clone(),
                    len(sequence.request.tokens),
                )
