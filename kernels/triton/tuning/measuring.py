"""Times of one case on the card that is there."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
import triton
from torch import Tensor
from triton.runtime.jit import JITFunction

from lookhear.kernels.triton.configs import Tile, trying
from lookhear.kernels.triton.tuning.calls import Call
from lookhear.kernels.triton.tuning.cases import Case
from lookhear.kernels.triton.tuning.notes import Notes, Row, name_of

# What a tile may do wrong: other numbers, no room, something that the card does not do.
REFUSALS = (AssertionError, RuntimeError, triton.runtime.errors.OutOfResources)


class LostDevice(Exception):
    """The device takes nothing any more: this process cannot go on."""


def measure(
    case: Case,
    device: torch.device,
    notes: Notes,
    refused: Mapping[Tile, str | None],
    *,
    end: float,
    written: Callable[[], None],
) -> None:
    """Into notes, after each of which `written` is called, until the time ends; the default in any
    case, and first. refused: by the compiler, with its words, None: not compiled in time."""
    todo = notes.todo(case)
    calls = case.calls(device)
    steps = calls if case.steps is None else case.steps(device)
    with trying(case.kernel, case.default):
        expected = {name: call() for name, call in calls.items()}
    left_out = []
    for tile in todo:
        is_needed = tile == case.default
        if (why := refused.get(tile, "")) and not is_needed:
            notes.refuse(case.name, name_of(tile), why)
        elif not is_needed and (why is None or time.monotonic() > end):
            left_out.append(name_of(tile))
        else:
            notes.under_way = (case.name, name_of(tile))
            written()
            _try(case, tile, calls, steps, expected, notes, device)
        written()
    notes.left_out[case.name] = left_out
    known = notes.library.setdefault(case.name, {})
    for rival, make in case.rivals.items():
        if rival not in known and time.monotonic() < end:
            known[rival] = _library(make(device), expected, device)
    written()


def _try(
    case: Case,
    tile: Tile,
    calls: Mapping[str, Call],
    steps: Mapping[str, Call],
    expected: Mapping[str, Tensor],
    notes: Notes,
    device: torch.device,
) -> None:
    with trying(case.kernel, tile):
        try:
            with _launched() as kernels:
                for name, call in calls.items():
                    torch.testing.assert_close(call(), expected[name], atol=2e-2, rtol=2e-2)
            registers = {
                kernel.metadata.name: [kernel.n_regs, kernel.n_spills] for kernel in kernels
            }
            row = {name: _time(step, case.steps is not None) for name, step in steps.items()}
        except REFUSALS as refusal:
            notes.refuse(case.name, name_of(tile), _words(refusal))
            _look_at(device)
        else:
            notes.measured(case, tile, row, registers)


def _library(
    calls: Mapping[str, Call], expected: Mapping[str, Tensor], device: torch.device
) -> Row | str:
    try:
        for name, call in calls.items():
            torch.testing.assert_close(call(), expected[name], atol=2e-2, rtol=2e-2)
        return {name: _time(call, False) for name, call in calls.items()}
    except (*REFUSALS, ImportError) as refusal:
        _look_at(device)
        return _words(refusal)


def _time(call: Call, is_step: bool) -> float:
    """Milliseconds. A step: as a graph, some of it behind each other; a call: alone, with nothing
    of its inputs in the L2 cache."""
    if is_step:
        return float(triton.testing.do_bench_cudagraph(call, rep=10, return_mode="median"))
    return float(triton.testing.do_bench(call, warmup=5, rep=25, return_mode="median"))


@contextmanager
def _launched() -> Iterator[list[Any]]:
    """The kernels that are launched within it; one of a name stands for all, that of the most
    registers."""
    found: dict[str, Any] = {}
    launch = JITFunction.run

    def run(self: JITFunction[Any], *args: Any, **kwargs: Any) -> Any:
        kernel = launch(self, *args, **kwargs)
        best = found.get(self.__name__)
        if best is None or (kernel.n_spills, kernel.n_regs) > (best.n_spills, best.n_regs):
            found[self.__name__] = kernel
        return kernel

    kernels: list[Any] = []
    JITFunction.run = run
    try:
        yield kernels
    finally:
        JITFunction.run = launch
        kernels.extend(found.values())


def _words(refusal: BaseException) -> str:
    return " ".join(f"{type(refusal).__name__}: {refusal}".split())[:300]


def _look_at(device: torch.device) -> None:
    """An illegal access, say, stays with its process: every later call would be refused for it."""
    try:
        if device.type == "cuda":
            torch.cuda.synchronize(device)
    except RuntimeError as error:
        raise LostDevice(str(error)) from error
