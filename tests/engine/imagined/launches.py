"""Checks the arguments of Triton launches, and what is compiled for them, without a launch."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, wraps
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from tests.engine.imagined.card import Card, Event, Fault, Functions, Operations, Phase, filled

MOST_X, MOST_YZ = 2**31 - 1, 65_535  # blocks of a grid
OPTIONS = ("num_warps", "num_stages", "num_ctas", "launch_pdl")
Variant = tuple[Any, ...]


class Parameter(NamedTuple):
    is_constant: bool
    is_pointer: bool
    is_specialised: bool


@cache  # thousands of launches of few kernels
def _parameters(kernel: Any) -> dict[str, Parameter]:
    unspecialised = _declared(kernel, "do_not_specialize")
    return {
        key: Parameter(
            str(parameter.annotation).lower().endswith("constexpr"),
            key.endswith("_ptr"),
            key not in unspecialised,
        )
        for key, parameter in inspect.signature(kernel.fn).parameters.items()
    }


class Launches:
    """variants: what has been compiled, by kernel. late: what was compiled after capturing."""

    def __init__(self, card: Card) -> None:
        self._card = card
        self.variants: set[Variant] = set()
        self.late: list[Variant] = []
        self.num = 0

    def check(self, kernel: Any, grid: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        """Raises `Fault` for what no card can carry out."""
        with torch._C.DisableTorchFunction():  # thousands of launches: tensors are only looked at
            self._check(kernel, grid, args, kwargs)

    def _check(self, kernel: Any, grid: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        name, parameters = kernel.fn.__name__, _parameters(kernel)
        bound = dict(zip(parameters, args, strict=False))
        options = {key: kwargs[key] for key in OPTIONS if key in kwargs}
        rest = {key: value for key, value in kwargs.items() if key not in OPTIONS}
        if len(args) > len(parameters) or bound.keys() & rest.keys():
            raise Fault(f"{name}: expected {list(parameters)}, got {len(args)} and {list(rest)}")
        bound |= rest
        if bound.keys() != parameters.keys():
            raise Fault(f"{name}: expected {list(parameters)}, got {list(bound)}")
        self._check_grid(name, grid)
        variant: list[Any] = [name, *sorted(options.items())]
        for key, parameter in parameters.items():
            value = bound[key]
            if parameter.is_constant:
                if isinstance(value, Tensor) or value is None:
                    raise Fault(f"{name}: {key}: expected a constant, got {value!r}")
                variant.append(value)
            elif parameter.is_pointer:
                self._check_pointer(name, key, value, bound)
                begin = value.storage_offset() * value.element_size()
                variant.append((value.dtype, begin % 16 == 0))
            else:
                variant.append(_number(name, key, value, parameter.is_specialised))
        self._compiled(tuple(variant))

    def _check_grid(self, name: str, grid: Any) -> None:
        sizes = tuple(grid)
        limits = (MOST_X, MOST_YZ, MOST_YZ)
        if not 1 <= len(sizes) <= 3 or not all(type(n) is int for n in sizes):
            raise Fault(f"{name}: grid: expected up to three whole numbers, got {grid!r}")
        if not all(1 <= n <= most for n, most in zip(sizes, limits, strict=False)):
            raise Fault(f"{name}: grid: expected 1 to {limits}, got {sizes}")

    def _check_pointer(self, name: str, key: str, value: Any, bound: dict[str, Any]) -> None:
        if not isinstance(value, Tensor):
            raise Fault(f"{name}: {key}: expected a tensor, got {value!r}")
        if not self._card.holds(value):
            raise Fault(f"{name}: {key}: expected a tensor of the device, got one of the host")
        if value.is_contiguous():
            return
        numbers = {number for number in bound.values() if type(number) is int}
        strides = [s for s, n in zip(value.stride(), value.shape, strict=True) if n > 1]
        if value.numel() in numbers and _is_dense(value):
            return  # element by element, in whatever order
        unknown = [stride for stride in strides if stride != 1 and stride not in numbers]
        if unknown:
            raise Fault(f"{name}: {key}: strides {unknown} of {tuple(value.shape)} are not passed")

    def _compiled(self, variant: Variant) -> None:
        self.num += 1
        if variant in self.variants:
            return
        if self._card.phase is Phase.CAPTURING:
            raise Fault(f"compiled within a captured region, not in its warm-up: {variant}")
        if self._card.phase is Phase.SERVING:
            self.late.append(variant)
        self.variants.add(variant)


def _is_dense(tensor: Tensor) -> bool:
    """Whether its elements lie side by side, its dimensions in any order."""
    size = 1
    for stride, number in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if number > 1 and stride != size:
            return False
        size *= number
    return True


def _declared(kernel: Any, name: str) -> Sequence[str]:
    held = getattr(kernel, "kwargs", None)  # of the interpreter
    found = held.get(name) if held is not None else getattr(kernel, name, None)
    return found or ()


def _number(name: str, key: str, value: Any, is_specialised: bool) -> Any:
    """As Triton compiles for it: 1 is a constant, multiples of 16 are known to be some."""
    if type(value) is float:
        return "float"
    if type(value) is not int:
        raise Fault(f"{name}: {key}: expected a number, got {value!r}")
    if not -(2**63) <= value < 2**63:
        raise Fault(f"{name}: {key}: expected 64 bits, got {value}")
    size = "i32" if -(2**31) <= value < 2**31 else "i64"
    return (size, value == 1, value % 16 == 0) if is_specialised else size


def imagine(
    monkeypatch: pytest.MonkeyPatch, in_flight: int = 0, *, computes: bool = True
) -> tuple[Card, Launches]:
    """Every operation that has a Triton twin checks its launches on the card's tensors, and events
    are the card's. in_flight: steps that may be on their way while another is launched. computes:
    else what is much work gives zeros, so that a model may have its true size."""
    from triton.runtime.jit import KernelInterface

    card = Card()
    launches = Launches(card)

    def __getitem__(kernel: Any, grid: Any) -> Callable[..., None]:
        return lambda *args, **kwargs: launches.check(kernel, grid, args, kwargs)

    monkeypatch.setattr(KernelInterface, "__getitem__", __getitem__)
    monkeypatch.setattr(torch.cuda, "Event", lambda *_, **__: Event(card, in_flight))
    known: dict[Any, Any] = {}
    for name, module in list(sys.modules.items()):
        package = name.removeprefix("lookhear.").split(".")[0]
        for key, held in list(vars(module).items()) if package in ("engine", "kernels") else ():
            if package == "kernels" and hasattr(held, "cache_clear"):
                held.cache_clear()  # tables on another card
            elif "twin" in getattr(held, "__dict__", {}) and not name.startswith(
                "lookhear.kernels.triton"
            ):
                known.setdefault(held, _imagined(card, held, computes))
                monkeypatch.setattr(module, key, known[held])
    stand_ins: dict[str, Callable[..., Tensor]] = {
        "linear": _zero_linear, "conv1d": _zero_conv, "conv2d": _zero_conv,
    }  # fmt: skip
    if computes:
        stand_ins = {name: _widened(getattr(torch.nn.functional, name)) for name in stand_ins}
    for name, stand_in in stand_ins.items():
        monkeypatch.setattr(torch.nn.functional, name, stand_in)
    return card, launches


def _widened(product: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Of bfloat16 in float32, as a card adds up: many CPUs take a tenth of the time for it."""

    def chosen(x: Tensor, weight: Tensor, bias: Tensor | None = None, **rest: Any) -> Tensor:
        if x.dtype != torch.bfloat16 or weight.dtype != x.dtype:
            return product(x, weight, bias, **rest)
        wide = None if bias is None else bias.float()
        return product(x.float(), weight.float(), wide, **rest).to(x.dtype)

    return chosen


def _zero_linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    return x.new_zeros(*x.shape[:-1], weight.shape[0])


def _zero_conv(x: Tensor, weight: Tensor, *_: Any, stride: Any = 1, padding: Any = 0) -> Tensor:
    axes = x.dim() - 2
    strides, paddings = (n if isinstance(n, tuple) else (n,) * axes for n in (stride, padding))
    sizes = [
        (size + 2 * around - wide) // step + 1
        for size, wide, step, around in zip(
            x.shape[2:], weight.shape[2:], strides, paddings, strict=True
        )
    ]
    return x.new_zeros(len(x), weight.shape[0], *sizes)


def _imagined(card: Card, operation: Any, computes: bool) -> Callable[..., Any]:
    @wraps(operation)
    def chosen(*args: Any, **kwargs: Any) -> Any:
        if card.is_paused or not card.holds(args[0]):
            return operation(*args, **kwargs)
        ours = operation.twin()(*args, **kwargs)
        if not computes:
            for tensor in [ours] if isinstance(ours, Tensor) else ours or ():
                if not any(tensor is given for given in args):
                    tensor.zero_()
            return ours
        with card.paused():
            real = operation.__wrapped__(*args, **kwargs)
        return filled(card, ours, real, lambda: str(operation.__name__))

    chosen.__dict__["__wrapped__"] = operation.__wrapped__  # torch's, as of the original
    return chosen


@contextmanager
def present(card: Card) -> Iterator[None]:
    """Within it, the card is there."""
    with Operations(card), Functions(card):
        yield
