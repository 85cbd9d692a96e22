"""Captured regions of an imagined card, and runners on it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

from lookhear.engine.device.acceleration import Acceleration
from lookhear.engine.device.graphs import Output
from lookhear.engine.device.staging import CudaMemory
from tests.engine.imagined.card import CUDA, GARBAGE, Card, Phase


class ImaginedGraph:
    """A replay is the region once more, under the rules of capturing. Outputs stay where they are;
    before a replay they are garbage."""

    def __init__(self, card: Card, region: Callable[[], Output], output: Output) -> None:
        self._card = card
        self._region = region
        self.output = tree_map(lambda x: x.clone(), output)
        self.num_replays = 0
        self._spoil()

    def replay(self) -> None:
        self.num_replays += 1
        self._card.num["replays"] += 1
        self._spoil()
        with self._card.during(Phase.CAPTURING):
            output = self._region()
        for held, new in zip(tree_leaves(self.output), tree_leaves(output), strict=True):
            held.copy_(new)

    def _spoil(self) -> None:
        for held in tree_leaves(self.output):
            held.fill_(torch.nan if held.is_floating_point() else GARBAGE)


class ImaginedBackend:
    """See `engine.device.graphs.Backend`."""

    num_bytes = 0

    def __init__(self, card: Card) -> None:
        self._card = card

    def capture(self, region: Callable[[], Output]) -> ImaginedGraph:
        region()  # what this compiles and sends, the capture need not
        with self._card.during(Phase.CAPTURING):
            output = region()
        return ImaginedGraph(self._card, region, output)


def imagined(card: Card, *, graphs: bool, overlap: int) -> Acceleration:
    backend = ImaginedBackend(card) if graphs else None
    return Acceleration(bool(overlap), CudaMemory(CUDA), backend)


def serving(card: Card, runner: Any) -> Any:
    """The runner, every launch of which is watched, and nothing of which may wait from now on."""
    launch, check = runner.launch, runner.check

    def watched(work: Any) -> Any:
        with card.launching():
            return launch(work)

    def checked(num_running: int) -> None:  # for tests: it may look at the device
        with card.during(Phase.SETTING_UP):
            check(num_running)

    runner.launch, runner.check = watched, checked
    card.phase = Phase.SERVING
    return runner
