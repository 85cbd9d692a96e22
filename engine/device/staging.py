"""Numbers between the host and the device, so that nobody waits: the integers of a step go over in
one copy from pinned memory, what was sampled comes back while the next step is launched.

On a CPU nothing is copied: tensors share the memory of the arrays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from math import prod
from typing import NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Integers = NDArray[np.int64]
Numbers = Sequence[int] | Sequence[float] | Integers | NDArray[np.int32] | NDArray[np.float32]
Shapes = Mapping[str, tuple[int, ...]]

# Fields begin at multiples of so many integers: Triton compiles for pointers that are multiples of
# 16 bytes, and a graph must not differ in that from the pass that warmed it up.
ALIGNMENT = 16
# Pinned buffers of a step's integers. A step has several passes (windows by length, prompts, single
# tokens), and those of the step before may still be on their way: with few buffers the host would
# wait for the device in the middle of its launches.
BUFFERS = 16
MAX_LAYOUTS = 1024  # that are remembered


class DeviceEvent(Protocol):
    """A point in the device's queue of work."""

    def record(self) -> None:
        """Behind all work that was queued so far."""

    def synchronize(self) -> None:
        """Wait until everything before it is done. At once if it was never recorded."""


class DeviceMemory(Protocol):
    """Where buffers come from. See `CudaMemory`; tests have one that checks the discipline."""

    def pinned(self, size: int) -> Tensor:
        """[size] int64 on the host, from which copies are asynchronous."""

    def persistent(self, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
        """On the device, at an address that stays: what captured graphs read."""

    def event(self) -> DeviceEvent:
        """A new one, never recorded."""


class CudaMemory:
    """See `DeviceMemory`."""

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def pinned(self, size: int) -> Tensor:
        """See `DeviceMemory`."""
        return torch.zeros(size, dtype=torch.int64, pin_memory=True)

    def persistent(self, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
        """See `DeviceMemory`."""
        return torch.zeros(tuple(shape), dtype=dtype, device=self._device)

    def event(self) -> DeviceEvent:
        """See `DeviceMemory`."""
        return torch.cuda.Event()  # type: ignore[no-untyped-call]


class Staging(Protocol):
    """Takes the integers of a step to the device."""

    def put(
        self, arrays: Mapping[str, Integers], *, is_fixed: bool = False
    ) -> Mapping[str, Tensor]:
        """Tensors of the same names, shapes and values, valid until the next call. Shapes that are
        equal from the first field on have equal addresses, up to the first that differs; with
        is_fixed that is asserted, for the graph that is to read them."""


class SharedStaging:
    """For a CPU: no copy, no buffer."""

    def put(
        self, arrays: Mapping[str, Integers], *, is_fixed: bool = False
    ) -> Mapping[str, Tensor]:
        """See `Staging`."""
        assert not is_fixed, "a graph reads a buffer of its own"
        return {
            name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in arrays.items()
        }


class PinnedStaging:
    """Pinned buffers in turn, each with the event of its last copy, and one on the device.

    One pinned buffer would be overwritten while the copy of the step before is still on its way.
    One is enough on the device: copies and kernels are in one queue. It never grows, because
    graphs know its address; what is larger goes over in memory of its own, to an eager pass.
    """

    def __init__(self, memory: DeviceMemory, capacity: int) -> None:
        assert capacity >= 1
        self._capacity = capacity
        self._target = memory.persistent([capacity], torch.int64)
        self._buffers = [(memory.pinned(capacity), memory.event()) for _ in range(BUFFERS)]
        self._turn = 0
        # Where fields lie, and the tensors: steps of equal shapes come again and again.
        self._places: dict[tuple[tuple[str, tuple[int, ...]], ...], _Places] = {}
        self._views: dict[tuple[int, tuple[int, ...]], Tensor] = {}

    def _place(self, arrays: Mapping[str, Integers]) -> _Places:
        key = tuple((name, array.shape) for name, array in arrays.items())
        places = self._places.get(key)
        if places is None:
            shapes = dict(key)
            offsets, size = _layout(shapes)
            fields = {}
            if size <= self._capacity:
                fields = {
                    name: self._view(offset, shape)
                    for (name, shape), offset in zip(shapes.items(), offsets, strict=True)
                }
            if len(self._places) >= MAX_LAYOUTS:
                self._places.clear()
            places = self._places[key] = _Places(offsets, size, fields)
        return places

    def _view(self, offset: int, shape: tuple[int, ...]) -> Tensor:
        # Most fields lie where they lay, also where those behind them are of other sizes.
        view = self._views.get((offset, shape))
        if view is None:
            if len(self._views) >= MAX_LAYOUTS:
                self._views.clear()
            view = self._target[offset : offset + prod(shape)].view(shape)
            self._views[offset, shape] = view
        return view

    def put(
        self, arrays: Mapping[str, Integers], *, is_fixed: bool = False
    ) -> Mapping[str, Tensor]:
        """See `Staging`."""
        places = self._place(arrays)
        size = places.size
        if size > self._capacity:
            assert not is_fixed, (size, self._capacity)
            return {
                name: to_device(array, torch.int64, self._target.device)
                for name, array in arrays.items()
            }
        buffer, copied = self._buffers[self._turn]
        self._turn = (self._turn + 1) % len(self._buffers)
        copied.synchronize()
        host = buffer.numpy()
        for array, offset in zip(arrays.values(), places.offsets, strict=True):
            host[offset : offset + array.size] = array.reshape(-1)
        self._target[:size].copy_(buffer[:size], non_blocking=True)
        copied.record()
        return places.fields


FLOAT_BUFFERS = 8  # of so many passes, two steps' together


class PinnedFloats:
    """Many float32 numbers of a pass, to one place on the device, by pinned buffers in turn; see
    `PinnedStaging`. target: [n] float32 on the device, what graphs read."""

    def __init__(self, memory: DeviceMemory, size: int) -> None:
        self.target = memory.persistent([size], torch.float32)
        self._buffers = [
            (memory.pinned(-(-size // 2)).view(torch.float32)[:size], memory.event())
            for _ in range(FLOAT_BUFFERS)
        ]
        self._turn = 0

    def begin(self) -> NDArray[np.float32]:
        """[n], to be filled from its beginning on: nobody reads it any more."""
        buffer, copied = self._buffers[self._turn]
        copied.synchronize()
        host: NDArray[np.float32] = buffer.numpy()
        return host

    def send(self, count: int) -> None:
        """The first count of what `begin` gave."""
        buffer, copied = self._buffers[self._turn]
        self._turn = (self._turn + 1) % len(self._buffers)
        self.target[:count].copy_(buffer[:count], non_blocking=True)
        copied.record()


class _Places(NamedTuple):
    """offsets: where each field begins. size: of all. fields: on the device, if they fit."""

    offsets: list[int]
    size: int
    fields: Mapping[str, Tensor]


def _layout(shapes: Shapes) -> tuple[list[int], int]:
    """Where each field begins, and the size of all."""
    sizes = [-(-prod(shape) // ALIGNMENT) * ALIGNMENT for shape in shapes.values()]
    ends = list(accumulate(sizes, initial=0))
    return ends[:-1], ends[-1]


def to_device(values: Numbers, dtype: torch.dtype, device: torch.device) -> Tensor:
    """A new tensor on the device; nobody waits for the copy."""
    if isinstance(values, np.ndarray) and not values.flags.writeable:
        values = values.copy()  # of a message: torch has no tensors that cannot be written
    host = torch.as_tensor(values, dtype=dtype)
    if device.type == "cpu":
        return host
    # From pinned memory the copy waits for nobody; torch keeps the memory until it is done.
    return host.pin_memory().to(device, non_blocking=True)


class Readback:
    """Numbers on their way to the host: [n] float64 holds token ids and float32 numbers exactly.
    On a CPU they are where they were, and must stay as they are until they are read."""

    def __init__(self, values: Tensor) -> None:
        self._done: torch.cuda.Event | None = None
        self._values = values
        if values.device.type != "cpu":
            self._values = torch.empty(values.shape, dtype=values.dtype, pin_memory=True)
            self._values.copy_(values, non_blocking=True)
            self._done = torch.cuda.Event()  # type: ignore[no-untyped-call]
            self._done.record()

    def read(self) -> list[float]:
        """Waits until they are here."""
        numbers: list[float] = self._arrived().tolist()
        return numbers

    def rows(self) -> list[list[float]]:
        """`read`, of [n, m]."""
        rows: list[list[float]] = self._arrived().tolist()
        return rows

    def array(self) -> NDArray[np.float32]:
        """`read`, for many float32 numbers in their shape."""
        numbers: NDArray[np.float32] = self._arrived().numpy()
        return numbers

    def _arrived(self) -> Tensor:
        if self._done is not None:
            self._done.synchronize()
        return self._values
