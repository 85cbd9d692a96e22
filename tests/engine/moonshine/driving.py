"""Requests of a Moonshine, run to their ends."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from lookhear.engine.core.request import Phase, Priority, Result
from lookhear.engine.core.runner import Finish
from lookhear.engine.moonshine.request import MoonshineRequest, MoonshineSequence
from lookhear.engine.moonshine.runner import MoonshineRunner

TOLERANCE = 1e-4
NEW = 12


def sound(seed: int, count: int) -> Tensor:
    return torch.randn(count, generator=torch.Generator().manual_seed(seed)) * 0.1


def close(ours: Tensor, theirs: Tensor) -> None:
    assert ours.shape == theirs.shape
    assert (ours - theirs).abs().max().item() <= TOLERANCE


def asked(key: str, samples: Tensor, **changes: Any) -> MoonshineRequest:
    values: dict[str, Any] = {"max_new_tokens": NEW, **changes}
    return MoonshineRequest(key, Priority.LIVE, samples.numpy(), **values)


def run(runner: MoonshineRunner, *requests: MoonshineRequest, ahead: bool = False) -> list[Result]:
    """All side by side, each coming a step after the one before it. ahead: steps are launched
    before the last one was read."""
    waiting, running, done = list(requests), list[MoonshineSequence](), list[MoonshineSequence]()
    finishes: list[Finish] = []
    while waiting or running or finishes:
        if waiting:
            running.append(runner.place(waiting.pop(0)))
        demands = {sequence.key: sequence.demand() for sequence in running}
        work = [(s, 1) for s in running if not demands[s.key].waiting]
        if work:
            finishes.append(runner.launch(work))
        if not ahead or len(finishes) > 1 or not work:
            assert finishes.pop(0)() == []
        done += [s for s in running if s.phase is Phase.DONE]
        running = [s for s in running if s.phase is not Phase.DONE]
    for sequence in done:
        runner.release(sequence)
    runner.check(0)
    return sorted((s.result() for s in done), key=lambda result: result.key)
