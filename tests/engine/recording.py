"""A device that is none: graphs are recorded tensor operations, replayed on the buffers they knew.

As with CUDA, everything of the host is baked when a pass is captured, nothing may be read back in
it, inputs are what lies at fixed addresses, and outputs lie where the next replay writes. Stricter:
whatever was not copied in for this very step is garbage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from lookhear.engine.device.graphs import Output

GARBAGE = 2**40  # an index out of any range
HOST_READS = (Tensor.tolist, Tensor.item, Tensor.numpy, Tensor.__bool__, Tensor.__int__)


class Event:
    """The copy out of one staging buffer."""

    def __init__(self, memory: RecordedMemory) -> None:
        self._memory = memory
        self.is_recorded = False

    def record(self) -> None:
        self.is_recorded = True

    def synchronize(self) -> None:
        # This is where a step begins: what nobody copies from here on is not there.
        self._memory.poison()
        self.is_recorded = False


class RecordedMemory:
    """See `engine.device.staging.Memory`."""

    def __init__(self) -> None:
        self._buffers: list[Tensor] = []

    def pinned(self, size: int) -> Tensor:
        return torch.zeros(size, dtype=torch.int64)

    def persistent(self, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
        self._buffers.append(torch.zeros(tuple(shape), dtype=dtype))
        return self._buffers[-1]

    def event(self) -> Event:
        return Event(self)

    def poison(self) -> None:
        for buffer in self._buffers:
            buffer.fill_(torch.nan if buffer.is_floating_point() else GARBAGE)


class _HostReads(TorchFunctionMode):
    def __init__(self, tape: Tape) -> None:
        self._tape = tape

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        assert self._tape.is_paused or func not in HOST_READS, f"{func} in a captured region"
        return func(*args, **(kwargs or {}))


class Tape(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """The operations of one region, on the tensors they were done with."""

    current: Tape | None = None

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.steps: list[tuple[Callable[..., Any], Any, Any, Any]] = []
        self.is_paused = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if not self.is_paused:
            name = str(func)
            assert "_local_scalar_dense" not in name and "nonzero" not in name, name
            assert "lift_fresh" not in name, "host data in a captured region"
            indices = [x for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)]
            assert "index" not in name or not any(x.dtype == torch.bool for x in indices), name
            self.steps.append((func, args, kwargs or {}, out))
        return out

    @contextmanager
    def paused(self) -> Iterator[None]:
        self.is_paused = True
        try:
            yield
        finally:
            self.is_paused = False

    def replay(self) -> dict[int, Tensor]:
        """Does it all again; returns the new tensors by the id of the recorded ones."""
        made: dict[int, Tensor] = {}

        def now(x: Any) -> Any:
            return made.get(id(x), x) if isinstance(x, Tensor) else x

        for func, args, kwargs, out in self.steps:
            again = func(*tree_map(now, args), **tree_map(now, kwargs))
            for old, new in zip(tree_leaves(out), tree_leaves(again), strict=True):
                if isinstance(old, Tensor):
                    made[id(old)] = new
        return made


class Recording:
    """A captured region. See `engine.device.graphs.Captured`."""

    def __init__(self, tape: Tape, output: Output) -> None:
        self._tape = tape
        self.output = tree_map(lambda x: x.clone(), output)
        self._recorded = tree_leaves(output)
        self.num_replays = 0

    def replay(self) -> None:
        self.num_replays += 1
        for held in tree_leaves(self.output):
            held.fill_(torch.nan if held.is_floating_point() else GARBAGE)
        made = self._tape.replay()
        for held, old in zip(tree_leaves(self.output), self._recorded, strict=True):
            held.copy_(made[id(old)])


class Recorder:
    """See `engine.device.graphs.Backend`. bytes_per_graph: what each pretends to take."""

    def __init__(self, bytes_per_graph: int = 0) -> None:
        self._bytes_per_graph = bytes_per_graph
        self.recordings: list[Recording] = []

    @property
    def num_bytes(self) -> int:
        return len(self.recordings) * self._bytes_per_graph

    def capture(self, region: Callable[[], Output]) -> Recording:
        region()  # warm up
        tape = Tape()
        Tape.current = tape
        try:
            with _HostReads(tape), tape:
                output = region()
        finally:
            Tape.current = None
        self.recordings.append(Recording(tape, output))
        return self.recordings[-1]


def make_opaque(monkeypatch: pytest.MonkeyPatch, *modules: ModuleType) -> None:
    """What has a Triton twin is one launch on a device, whatever its torch version does: it is
    recorded as one operation, wherever these modules call it."""
    for module in modules:
        if hasattr(module, "spans"):  # what the torch version alone reads back
            monkeypatch.setattr(module, "spans", lambda *_: None)
        for name, operation in list(vars(module).items()):
            if "twin" in getattr(operation, "__dict__", {}):
                monkeypatch.setattr(module, name, _opaque(operation))


def _opaque(operation: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(operation)
    def recorded(*args: Any, **kwargs: Any) -> Any:
        tape = Tape.current
        if tape is None or tape.is_paused:
            return operation(*args, **kwargs)
        with tape.paused():
            out = operation(*args, **kwargs)
        tape.steps.append((operation, args, kwargs, out))
        return out

    return recorded
