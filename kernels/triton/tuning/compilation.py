"""Kernels compiled without a card, by as many processes as there are cores: what is measured later
finds them in Triton's cache. One after another they would take longer than all measurements.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch
from triton.backends.compiler import GPUTarget
from triton.runtime import driver
from triton.runtime.jit import JITFunction

from lookhear.kernels.triton import linear, self_attention_paged
from lookhear.kernels.triton.configs import Tile, launches_early, trying
from lookhear.kernels.triton.int4 import products
from lookhear.kernels.triton.tuning.cases import Case, cases

META = torch.device("meta")  # nobody looks into a tensor


class Aim:
    """A driver of Triton's as far as the compiler asks one, for some card."""

    def __init__(self, target: GPUTarget) -> None:
        self._target = target

    def get_current_device(self) -> int:
        """Of one."""
        return 0

    def get_current_stream(self, device: int) -> int:
        """The default."""
        return 0

    def get_current_target(self) -> GPUTarget:
        """What is compiled for."""
        return self._target


def only_compile(
    target: GPUTarget, is_early: bool, compiled: Callable[[JITFunction[Any], Any], None]
) -> None:
    """From now on, and for good, this process launches nothing: a launch compiles its kernel for
    the target and gives it to `compiled`. is_early: as `launches_early` says on that card."""
    driver.set_active(Aim(target))
    for module in (linear, products, self_attention_paged):
        setattr(module, launches_early.__name__, lambda: is_early)
    launch = JITFunction.run

    def run(self: JITFunction[Any], *args: Any, warmup: bool, **kwargs: Any) -> None:
        compiled(self, launch(self, *args, warmup=True, **kwargs))

    JITFunction.run = run


Job = tuple[str, Tile]  # a case's name, and how it is cut up


def compile_all(
    jobs: Sequence[Job],
    target: GPUTarget,
    *,
    is_early: bool,
    seconds: float,
    workers: int | None = None,
) -> dict[Job, str]:
    """The jobs that were carried out in time, in their order as far as that goes; with what the
    compiler said where it refused. workers: processes; default: one a core."""
    end = time.monotonic() + seconds
    done: dict[Job, str] = {}
    # Spawned: a fork of a process that has used a card is of no use.
    context = multiprocessing.get_context("spawn")
    count = max(1, min(len(jobs), workers or len(os.sched_getaffinity(0))))
    pool = context.Pool(count, _begin, (tuple(target.__dict__.values()), is_early))
    try:
        results = pool.imap_unordered(_compile, jobs)
        for _ in jobs:
            # A process that died keeps its job for good: the time ends the wait for it.
            job, refusal = results.next(max(0.0, end - time.monotonic()))
            done[job] = refusal
    except multiprocessing.TimeoutError:
        pass
    finally:
        pool.terminate()
        pool.join()
    return done


def _begin(target: tuple[Any, ...], is_early: bool) -> None:
    torch.set_num_threads(1)
    only_compile(GPUTarget(*target), is_early, lambda function, kernel: None)


@cache
def _cases() -> dict[str, Case]:
    return {case.name: case for case in cases()}


def _compile(job: Job) -> tuple[Job, str]:
    name, tile = job
    case = _cases()[name]
    made = case.calls(META)
    if case.steps is not None:
        made |= case.steps(META)
    try:
        with trying(case.kernel, tile):
            for call in made.values():
                call()
    except Exception as error:  # the compiler has many kinds: what it refuses is not measured
        return job, f"{type(error).__name__}: {error}"[:300]
    return job, ""
