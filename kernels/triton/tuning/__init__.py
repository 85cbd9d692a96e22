"""Measurements of tiles on the card that is there. See `lookhear tune`.

For every kernel of the table and every size class: what real models do with that class, under every
candidate. A candidate has to give the default's numbers, and is taken if it is faster by more than
measurements wander, in the geometric mean. First everything is compiled, by all cores; then
measured, until the time ends. What was found is written as it comes, and a later run goes on there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from triton.runtime import driver

from lookhear.kernels.triton.configs import DEFAULTS, launches_early, user_path
from lookhear.kernels.triton.tuning.cases import Case, cases
from lookhear.kernels.triton.tuning.compilation import compile_all
from lookhear.kernels.triton.tuning.measuring import LostDevice, measure
from lookhear.kernels.triton.tuning.notes import Notes, mean, name_of

COMPILE_SHARE = 0.6  # of the time, at most


def tune(
    output: Path | None = None,
    kernels: Sequence[str] | None = None,
    *,
    seconds: float = 240.0,
    workers: int | None = None,
    goes_on: Callable[[], None] = lambda: None,
) -> Path:
    """Measures, prints a line per case, writes the table; returns where. ValueError for a kernel
    that is not in the table; `LostDevice`. What the time does not suffice for keeps its default.

    seconds: in all, but for what is under way then, and the defaults. workers: processes that
    compile; default: one a core. goes_on: called at each case, so that nobody takes the defaults of
    many, behind the time, for a run that hangs.
    """
    unknown = sorted(set(kernels or ()) - set(DEFAULTS))
    if unknown:
        raise ValueError(f"kernel: expected one of {', '.join(DEFAULTS)}, got {unknown[0]!r}")
    began = time.monotonic()
    end = began + seconds
    device = torch.cuda.get_device_name()
    path = output or user_path(device)
    notes = Notes.resumed(path, device)
    every = list(cases())
    wanted = [case for case in every if kernels is None or case.kernel in kernels]
    todo = [case for case in wanted if not notes.is_whole(case)]
    # The likely tiles of all cases first.
    ranked = sorted(
        (rank, number, (case.name, tile))
        for number, case in enumerate(todo)
        for rank, tile in enumerate(notes.todo(case))
    )
    jobs = [job for _, _, job in ranked]
    print(f"{device}: {len(todo)} of {len(wanted)} cases, {len(jobs)} tiles to compile", flush=True)
    compiled = compile_all(
        jobs,
        driver.active.get_current_target(),
        is_early=launches_early(),
        seconds=seconds * COMPILE_SHARE,
        workers=workers,
    )
    took = time.monotonic() - began
    print(f"compiled {len(compiled)} of {len(jobs)} in {took:.0f} s", flush=True)
    for number, case in enumerate(todo):
        goes_on()
        share = (end - time.monotonic()) / (len(todo) - number)
        try:
            measure(
                case,
                torch.device("cuda"),
                notes,
                {tile: compiled.get((case.name, tile)) for tile in notes.todo(case)},
                end=time.monotonic() + share,
                written=lambda: notes.write(path, every),
            )
        except RuntimeError as error:  # a small card may have no room for what is measured
            print(f"{case.name:22} {error}", flush=True)
        else:
            print(shown(case, notes), flush=True)
    return path


def shown(case: Case, notes: Notes) -> str:
    """A case as a line, and one for each rival in the library."""
    rows, best = notes.rows(case), notes.best(case)
    left_out, refused = notes.left_out.get(case.name, ()), notes.refused.get(case.name, {})
    line = f"{case.name:22} {name_of(best)}"
    if best in rows:
        line += f", {mean(rows[best]) * 1000:.1f} us"
    if best != case.default:
        line += f" instead of {mean(rows[case.default]) * 1000:.1f}"
    line += f" ({len(rows)} tried, {len(refused)} refused, {len(left_out)} left out)"
    for kernel, (used, spilled) in (
        notes.registers.get(case.name, {}).get(name_of(best), {}).items()
    ):
        if spilled:
            line += f"; {kernel} spills {4 * spilled} bytes of {used} registers"
    for rival, row in notes.library.get(case.name, {}).items():
        if isinstance(row, str):
            line += f"\n  {rival}: {row}"
            continue
        ours = {name: rows[best][name] for name in row} if best in rows else {}
        line += f"\n  {rival}: {mean(row) * 1000:.1f} us"
        line += f", ours for the same {mean(ours) * 1000:.1f}" if ours else ""
    return line


__all__ = ["LostDevice", "tune"]
