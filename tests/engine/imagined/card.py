"""A card that is imagined: its tensors lie in the host's memory, but say that they are on CUDA, and
whatever a real card would stumble over is a `Fault`.

    tensors    a storage is the card's, or pinned, or plain memory of the host; views share it, and
               what is computed from the card's tensors is the card's
    mixing     an operation on tensors of both is a fault
    waiting    so is reading back (`item`, `tolist`, a boolean mask, a blocking copy), and sending
               what is not pinned, while steps are launched: all of these stop the host
    copies     what comes back is garbage until an event recorded behind it was synchronised; what
               goes over must not be changed before
    launches   of Triton kernels are checked, not carried out (`tests.engine.imagined.launches`);
               torch version says what they would have written

Numbers are real ones, so whole runs can be compared with a CPU's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Any

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from tests.engine.imagined.tensors import name_of, storage_of, tensors_in

CUDA = torch.device("cuda", 0)
GARBAGE = -(2**40)
HOST_READS = {
    Tensor.tolist, Tensor.numpy, Tensor.__array__, Tensor.item, Tensor.__int__, Tensor.__float__,
    Tensor.__bool__, Tensor.__index__,
}  # fmt: skip
# Operations whose result's size depends on values, or that hand a value to the host.
WAITING = {
    "_local_scalar_dense", "nonzero", "nonzero_numpy", "masked_select", "equal", "is_nonzero",
    "unique_dim", "_unique2", "unique_consecutive", "bincount", "repeat_interleave",
}  # fmt: skip
# Of these nothing is computed: they are most of what is asked.
DESCRIBING = {
    *(getattr(Tensor, name).__get__ for name in ("shape", "dtype", "ndim", "layout", "itemsize")),
    Tensor.dim, Tensor.size, Tensor.stride, Tensor.numel, Tensor.__len__, Tensor.storage_offset,
    Tensor.element_size, Tensor.is_contiguous, Tensor.is_floating_point, Tensor.untyped_storage,
    Tensor.data_ptr,
}  # fmt: skip
# To these something is done before they are called, or instead.
SPECIAL = {
    Tensor.device.__get__, Tensor.is_cuda.__get__, Tensor.is_pinned,  # type: ignore[attr-defined]
    Tensor.pin_memory, Tensor.new_tensor, Tensor.__getitem__, Tensor.__setitem__, Tensor.cpu,
    Tensor.cuda, Tensor.to, torch.where, *HOST_READS,
}  # fmt: skip
INDEXING = {"index", "index_put", "index_put_", "_index_put_impl_"}


class Fault(AssertionError):
    """What a real card would fail at, or wait for."""


class Phase(Enum):
    """SETTING_UP: waiting is allowed. SERVING: it is not. CAPTURING: nor is any copy."""

    SETTING_UP = 0
    SERVING = 1
    CAPTURING = 2


class Card:
    """Everything that is on it, and on its way to it or from it. num: of copies and allocations."""

    def __init__(self) -> None:
        self.phase = Phase.SETTING_UP
        self.is_paused = False
        self.inside: Any = ()  # the arguments of the function that is called; True: it is ours
        self.is_scalar = False  # of an assignment of a number
        self.num: Counter[str] = Counter()
        self.launch = 0  # number of the step that is launched, or was last
        self.is_launching = False
        self._mine: dict[int, StorageWeakRef] = {}
        self._pinned: dict[int, StorageWeakRef] = {}
        self._clock = 0
        self._leaving: list[tuple[int, Tensor, Tensor]] = []  # when, source, what it was
        self._arriving: list[tuple[int, Tensor, Tensor]] = []  # when, target, what it will be

    # --- whose memory is it ----------------------------------------------------------------------

    def holds(self, tensor: Tensor) -> bool:
        return storage_of(tensor) in self._mine

    def is_pinned(self, tensor: Tensor) -> bool:
        return storage_of(tensor) in self._pinned

    def is_inside(self) -> bool:
        """Of a function that has the card's tensors among its arguments."""
        return self.inside is True or any(map(self.holds, tensors_in(self.inside)))

    def take(self, tensor: Tensor) -> Tensor:
        """From now on it is the card's."""
        storage = storage_of(tensor)
        if storage not in self._mine:  # the reference keeps others from having its address
            self._mine[storage] = StorageWeakRef(tensor.untyped_storage())  # type: ignore[no-untyped-call]
        return tensor

    def pin(self, tensor: Tensor) -> Tensor:
        self.forbid_capturing("pinned memory is allocated")
        self.num["pinned"] += 1
        self._pinned[storage_of(tensor)] = StorageWeakRef(tensor.untyped_storage())  # type: ignore[no-untyped-call]
        return tensor

    # --- phases ----------------------------------------------------------------------------------

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Tensors are what they are: the host's. Nobody looks at what is done with them."""
        before, self.is_paused = self.is_paused, True
        try:
            with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
                yield
        finally:
            self.is_paused = before

    @contextmanager
    def during(self, phase: Phase) -> Iterator[None]:
        before, self.phase = self.phase, phase
        try:
            yield
        finally:
            self.phase = before

    @contextmanager
    def launching(self) -> Iterator[None]:
        """A step."""
        self.launch += 1
        self.is_launching = True
        try:
            yield
        finally:
            self.is_launching = False

    def forbid_waiting(self, what: str) -> None:
        if self.phase is not Phase.SETTING_UP:
            raise Fault(f"the host waits for the device: {what}")

    def forbid_capturing(self, what: str) -> None:
        if self.phase is Phase.CAPTURING:
            raise Fault(f"in a captured region {what}")

    # --- copies ----------------------------------------------------------------------------------

    def check_sending(self, source: Tensor, non_blocking: bool) -> None:
        """From the host to the card."""
        self.forbid_capturing("a copy from the host")
        self.num["sent"] += 1
        if not (self.is_pinned(source) and non_blocking):
            shape, dtype = tuple(source.shape), source.dtype
            self.forbid_waiting(f"a blocking copy from memory that is not pinned: {shape}, {dtype}")
            return
        self._clock += 1
        self._leaving.append((self._clock, source, source.clone()))

    def fetch(self, target: Tensor, source: Tensor, non_blocking: bool) -> Tensor:
        """From the card to the host."""
        self.forbid_capturing("a copy to the host")
        self.num["fetched"] += 1
        if not (self.is_pinned(target) and non_blocking):
            self.forbid_waiting("a copy to the host")
            return target.copy_(source)
        self._clock += 1
        self._arriving.append((self._clock, target, source.clone()))
        return target.fill_(torch.nan if target.is_floating_point() else GARBAGE)

    def check_reading(self, tensor: Tensor, what: str) -> None:
        if self.holds(tensor):
            self.forbid_waiting(what)
            return
        storages = [storage_of(target) for _, target, _ in self._arriving]
        if storage_of(tensor) in storages:
            raise Fault(f"{what} before the copy from the device has arrived")

    def record(self) -> int:
        self.forbid_capturing("an event")
        self._clock += 1
        return self._clock

    def synchronize(self, moment: int) -> None:
        """Everything up to that moment is done."""
        self.forbid_capturing("a wait for an event")
        for when, source, before in self._leaving:
            if when <= moment and not torch.equal(
                source.view(torch.uint8), before.view(torch.uint8)
            ):
                raise Fault("memory of the host was written to while it was copied to the device")
        self._leaving = [entry for entry in self._leaving if entry[0] > moment]
        for when, target, values in self._arriving:
            if when <= moment:
                target.copy_(values)
        self._arriving = [entry for entry in self._arriving if entry[0] > moment]


class Event:
    """See `torch.cuda.Event`. What belongs to the step that is being launched, or to one that has
    not been waited for, must not be waited for while launching: that would be a wait for oneself.
    """

    def __init__(self, card: Card, in_flight: int) -> None:
        self._card = card
        self._in_flight = in_flight
        self._moment = 0
        self._launch = -(10**9)

    def record(self) -> None:
        self._moment = self._card.record()
        self._launch = self._card.launch if self._card.is_launching else -(10**9)

    def synchronize(self) -> None:
        card = self._card
        if card.is_launching and self._launch >= card.launch - self._in_flight:
            card.forbid_waiting("an event of a step that is still on its way")
        with card.paused():
            card.synchronize(self._moment)


class Functions(TorchFunctionMode):
    """What Python sees: devices, pinned memory, tensors sent and fetched."""

    def __init__(self, card: Card) -> None:
        super().__init__()
        self._card = card

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        card = self._card
        if card.is_paused or func in DESCRIBING:
            return func(*args, **(kwargs or {}))
        kwargs = dict(kwargs or {})
        if func in SPECIAL:
            special = self._special(func, args, kwargs)
            if special is not NotImplemented:
                return special
        is_ours = kwargs.get("device") is not None and _is_cuda(kwargs["device"])
        if is_ours:
            kwargs["device"] = "cpu"
            if func in (torch.tensor, torch.as_tensor, torch.asarray):
                card.forbid_capturing("numbers of the host")
                card.forbid_waiting(f"{func.__name__} of numbers of the host on a device")
        pins = bool(kwargs.pop("pin_memory", False))
        before = card.inside, card.is_scalar
        card.inside = is_ours or (args, kwargs)
        card.is_scalar = func is Tensor.__setitem__ and not isinstance(args[2], Tensor)
        try:
            out = func(*args, **kwargs)
        finally:
            card.inside, card.is_scalar = before
        if is_ours:
            for tensor in tensors_in(out):
                card.take(tensor)
        return card.pin(out) if pins else out

    def _special(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        card = self._card
        if func == Tensor.device.__get__:
            return CUDA if card.holds(args[0]) else func(*args)
        if func == Tensor.is_cuda.__get__:  # type: ignore[attr-defined]
            return card.holds(args[0])
        if func is Tensor.is_pinned:
            return card.is_pinned(args[0])
        if func is Tensor.pin_memory:
            if card.holds(args[0]):
                raise Fault("memory of the device cannot be pinned")
            return card.pin(args[0].clone())
        if func in HOST_READS:
            card.check_reading(args[0], func.__name__)
        if func is torch.where and len(args) == 1:
            card.check_reading(args[0], "where, of places")
        if func is Tensor.new_tensor and card.holds(args[0]):
            card.check_sending(torch.zeros(0), False)
        if func in (Tensor.__getitem__, Tensor.__setitem__):
            self._check_index(args[1])
        if func is Tensor.__setitem__ and card.holds(args[0]) and isinstance(args[2], Tensor):
            if not card.holds(args[2]) and args[2].dim() == 0:
                card.check_sending(args[2], False)
        if func in (Tensor.cpu, Tensor.cuda, Tensor.to):
            return self._moved(func, args, kwargs)
        return NotImplemented

    def _check_index(self, index: Any) -> None:
        """Numbers among the indices are the host's business."""
        for part in index if isinstance(index, tuple) else (index,):
            ends = (part.start, part.stop, part.step) if isinstance(part, slice) else (part,)
            for number in ends:
                if isinstance(number, Tensor) and number.dim() == 0:
                    self._card.check_reading(number, "a number as an index")

    def _moved(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """`to` and its relatives."""
        card, tensor, rest = self._card, args[0], list(args[1:])
        target = {Tensor.cpu: torch.device("cpu"), Tensor.cuda: CUDA}.get(func)
        other = kwargs.pop("device", None)
        if rest and isinstance(rest[0], str | torch.device | Tensor):
            other = rest.pop(0)
        if isinstance(other, Tensor):
            kwargs["dtype"] = other.dtype
            target = CUDA if card.holds(other) else torch.device("cpu")
        elif other is not None:
            target = torch.device(other)
        non_blocking = bool(kwargs.pop("non_blocking", False))
        is_mine = card.holds(tensor)
        changed = tensor.to(*rest, **kwargs) if rest or kwargs else tensor
        if target is None or (target.type == "cuda") == is_mine:
            return changed
        if not is_mine:
            # torch sends it as it is, and converts on the device.
            card.check_sending(tensor, non_blocking)
            return card.take(changed.clone())
        card.forbid_capturing("a copy to the host")
        card.forbid_waiting("a copy to the host")
        with card.paused():
            return changed.clone()


class Operations(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """What the device is told."""

    def __init__(self, card: Card) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._card = card

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Nobody compiles here: what tells torch's compiler to look away takes as long as a look
        at the arguments."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        card, kwargs = self._card, kwargs or {}
        if card.is_paused:
            return func(*args, **kwargs)
        name = name_of(func)
        if name == "copy_":
            return self._copied(func, args, kwargs)
        if name == "lift_fresh":  # of numbers that have just been made a tensor
            return func(*args, **kwargs)
        tensors = tensors_in((args, kwargs))
        num_mine = sum(map(card.holds, tensors))
        if num_mine and (num_mine < len(tensors) or name in INDEXING):
            self._check(name, tensors, num_mine)
        if name in WAITING:
            for tensor in tensors:
                card.check_reading(tensor, name)
        out = func(*args, **kwargs)
        if num_mine or (not tensors and card.is_inside()):
            for made in tensors_in(out):
                card.take(made)
        return out

    def _check(self, name: str, tensors: list[Tensor], num_mine: int) -> None:
        # A number may be the host's: it travels with the launch.
        strange = [x for x in tensors if not self._card.holds(x) and x.dim() > 0]
        if strange and name in INDEXING:
            self._card.forbid_waiting(f"{name} by places that the host has")
        elif strange:
            shapes = [tuple(x.shape) for x in strange]
            raise Fault(f"{name}: {num_mine} tensors of the device, of the host: {shapes}")
        if name in INDEXING and any(x.dtype in (torch.bool, torch.uint8) for x in tensors[1:]):
            self._card.forbid_waiting(f"{name} by a mask")

    def _copied(self, func: Any, args: Any, kwargs: Any) -> Any:
        card, (target, source) = self._card, args[:2]
        non_blocking = bool(args[2] if len(args) > 2 else kwargs.get("non_blocking", False))
        if card.holds(target) and not card.holds(source) and not card.is_scalar:
            card.check_sending(source, non_blocking)
        if card.holds(source) and not card.holds(target):
            with card.paused():
                return card.fetch(target, source, non_blocking)
        return func(*args, **kwargs)


def _is_cuda(device: Any) -> bool:
    return torch.device(device).type == "cuda"


def filled(card: Card, ours: Any, real: Any, what: Callable[[], str]) -> Any:
    """ours: what a wrapper around launches returned, empty; real: what belongs into it."""
    with card.paused():
        for mine, theirs in zip(tensors_in(ours), tensors_in(real), strict=True):
            if mine.shape != theirs.shape or mine.dtype != theirs.dtype:
                raise Fault(
                    f"{what()}: expected {tuple(theirs.shape)} {theirs.dtype} as torch returns, "
                    f"got {tuple(mine.shape)} {mine.dtype}"
                )
            mine.copy_(theirs)
    return ours
