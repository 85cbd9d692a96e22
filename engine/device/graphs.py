"""Decoder and encoder passes captured once per shape and replayed: one launch instead of hundreds.

    plan      a kind of pass, the shapes ("buckets") it is captured for, and its region: a function
              of nothing but device memory that stays where it is
    capture   all of them, at the start, the largest first, from one pool, within a budget
    fit       the smallest captured shape that a step fits into; None: the step runs eager
    run       replay, or the region itself; counted by kind, for the metrics

A step is padded to its shape by whoever builds it: rows nobody owns, on the trash block. A graph
answers into memory that it will use again: take the result before the next call.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any, Protocol

from torch import Tensor

from lookhear.engine.device.staging import Integers, Staging

log = logging.getLogger(__name__)

Shape = tuple[int, ...]
Fields = Mapping[str, Tensor]
Output = Any  # a tensor or a tuple of tensors
Region = Callable[[Fields], Output]

ROW_BUCKETS = (1, 2, 4, 8, 16, 24, 32, 48, 64)  # then every 32


class Captured(Protocol):
    """One graph."""

    @property
    def output(self) -> Output:
        """Memory that every replay writes."""

    def replay(self) -> None:
        """Do again what was captured, on what lies in its buffers now."""


class Backend(Protocol):
    """Captures what a function launches. See `engine.device.cuda_graphs`."""

    @property
    def num_bytes(self) -> int:
        """Of device memory, taken by all graphs so far."""

    def capture(self, region: Callable[[], Output]) -> Captured:
        """The region reads nothing on the host, and is called a few times to warm up."""


@dataclass(slots=True, eq=False)
class _Kind:
    """shapes: planned, by size. graphs: those that were captured."""

    name: str
    region: Region
    fill: Callable[[Shape], Mapping[str, Integers]]
    shapes: list[Shape]
    graphs: dict[Shape, Captured] = field(default_factory=dict)


class Graphs:
    """backend: None runs everything eager. budget_bytes: of device memory, for all graphs; what
    would exceed it is not captured. num_runs: passes by kind and by how they were carried out.
    """

    def __init__(
        self, staging: Staging, backend: Backend | None = None, budget_bytes: int = 2 * 2**30
    ) -> None:
        self.staging = staging
        self.num_runs: Counter[str] = Counter()
        self._backend = backend
        self._budget = budget_bytes
        self._kinds: dict[str, _Kind] = {}

    @property
    def is_on(self) -> bool:
        """Whether passes may be captured at all."""
        return self._backend is not None

    @property
    def num_captured(self) -> int:
        """Graphs of all kinds."""
        return sum(len(kind.graphs) for kind in self._kinds.values())

    def plan(
        self,
        kind: str,
        shapes: list[Shape],
        region: Region,
        fill: Callable[[Shape], Mapping[str, Integers]],
    ) -> None:
        """fill: the integers of a step of a shape in which nothing is real. Its fields are those
        of a real step, in order; behind them a real step may have more, for what follows the
        region."""
        assert kind not in self._kinds, kind
        self._kinds[kind] = _Kind(kind, region, fill, sorted(shapes, key=_cost))

    def capture(self, progress: Callable[[float], None]) -> None:
        """At the start, before the first step. Nothing if there is no backend. A kind of which a
        graph cannot be captured runs eager in the shapes that are left."""
        if self._backend is None:
            return
        todo = [(shape, kind) for kind in self._kinds.values() for shape in kind.shapes]
        # The largest first: the others find their memory in what it leaves in the pool.
        todo.sort(key=lambda item: _cost(item[0]), reverse=True)
        skipped = 0
        broken: list[_Kind] = []
        for number, (shape, kind) in enumerate(todo):
            progress(number / len(todo))
            if kind in broken:
                continue
            if self._backend.num_bytes >= self._budget:
                skipped += 1
                continue
            try:
                kind.graphs[shape] = self._captured(self._backend, kind, shape)
            except AssertionError:
                raise
            except Exception as error:  # of torch or Triton: a server without graphs still serves
                log.warning("graphs: %s of %s cannot be captured: %s", kind.name, shape, error)
                broken.append(kind)
        progress(1.0)
        if skipped:
            log.warning(
                "graphs: expected all %d to fit into %d MiB, left out %d: those steps run eager",
                len(todo), self._budget // 2**20, skipped,
            )  # fmt: skip

    def _captured(self, backend: Backend, kind: _Kind, shape: Shape) -> Captured:
        fields = self.staging.put(kind.fill(shape), is_fixed=True)
        return backend.capture(lambda: kind.region(fields))

    def fit(self, kind: str, *sizes: int) -> Shape | None:
        """The smallest captured shape with room for sizes in every dimension."""
        held = self._kinds.get(kind)
        if held is None or not held.graphs:
            return None
        for shape in held.shapes:
            if shape in held.graphs and all(a >= b for a, b in zip(shape, sizes, strict=True)):
                return shape
        return None

    def run(self, kind: str, shape: Shape | None, eager: Callable[[], Output]) -> Output:
        """shape: from `fit`, and the step's fields have been put in place; or None."""
        if shape is None:
            self.num_runs[f"{kind} eager"] += 1
            return eager()
        self.num_runs[f"{kind} graph"] += 1
        graph = self._kinds[kind].graphs[shape]
        graph.replay()
        return graph.output

    def stats(self) -> dict[str, int]:
        """Of all kinds: passes that were replayed, and those that were not."""
        counts = {"graph": 0, "eager": 0}
        for name, count in self.num_runs.items():
            counts[name.rsplit(" ", 1)[1]] += count
        return {
            "graphs": self.num_captured,
            "graph_passes": counts["graph"],
            "eager_passes": counts["eager"],
        }


def _cost(shape: Shape) -> tuple[int, Shape]:
    return prod(shape), shape


def row_buckets(most: int) -> list[int]:
    """Batch sizes that are captured where there are `most` rows; the last is `most`."""
    sizes = [*ROW_BUCKETS, *range(ROW_BUCKETS[-1] + 32, most, 32)]
    return [size for size in sizes if size < most] + [most]
