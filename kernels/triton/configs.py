"""How each kernel is cut up, by the size that matters to it, and by the card if it was measured.

The defaults are chosen by arithmetic and safe on any card since Ampere; those of Hopper were
measured on an H200 (docs/gpu.md). `lookhear tune` measures others and writes down what was better
on a card: the first launch there reads it from the user's cache folder. Nothing is tried out while
serving.
"""

from __future__ import annotations

import json
import logging
import math
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import torch

log = logging.getLogger(__name__)


class Tile(NamedTuple):
    """size: elements, rows or keys of one program, as the kernel's launch says. warps: of 32
    threads. stages: loads in flight in a loop."""

    size: int
    warps: int
    stages: int = 1


Table = Mapping[str, tuple[tuple[float, Tile], ...]]

# Per kernel: (up to this size, tile), the last for all beyond.
DEFAULTS: Table = {
    # By width; size: rows of one program. A row is held in registers whole.
    "norm": (
        (128, Tile(8, 4)),
        (256, Tile(4, 4)),
        (1024, Tile(1, 4)),
        (1280, Tile(2, 4)),  # Whisper's: a pass of its encoder in one wave
        (4096, Tile(1, 8)),
        (float("inf"), Tile(1, 16)),
    ),
    # Size: elements.
    "elementwise": ((float("inf"), Tile(1024, 4)),),
    # By head dim; size: keys of one turn of the loop. A turn's keys and values of all stages lie in
    # shared memory: 2 * stages * size * dim * 2 bytes, at most 99 KiB on the smaller cards.
    "decode attention": (
        (64, Tile(64, 4, 3)),
        (128, Tile(64, 4, 2)),
        (float("inf"), Tile(32, 4, 2)),
    ),
    "prefill attention": (
        (64, Tile(64, 4, 3)),
        (128, Tile(64, 4, 2)),
        (float("inf"), Tile(32, 4, 2)),
    ),
    "encoder attention": (
        (64, Tile(64, 8, 3)),  # 122 registers: two programs on a multiprocessor
        (128, Tile(64, 8, 2)),
        (float("inf"), Tile(32, 8, 2)),
    ),
    # By rows; size: outputs of one program, 1: the library's product; stages: loads of an output
    # that are in flight. What is in flight lies in registers, with the inputs that it meets.
    "few rows": (
        (1, Tile(8, 4, 8)),
        (2, Tile(8, 4, 4)),
        (4, Tile(4, 4, 2)),
        (8, Tile(1, 1)),
        (float("inf"), Tile(1, 1)),
    ),
    # Behind a norm, and gated: half the outputs, of two lines of weights each.
    "few rows, norm": (
        (1, Tile(8, 4, 8)),
        (2, Tile(8, 4, 4)),
        (4, Tile(4, 4, 2)),
        (8, Tile(1, 1)),
        (float("inf"), Tile(1, 1)),
    ),
    "few rows, gated": (
        (1, Tile(8, 4, 8)),
        (2, Tile(8, 4, 4)),
        (4, Tile(4, 4, 2)),
        (8, Tile(1, 1)),
        (float("inf"), Tile(1, 1)),
    ),
    # The same of weights in float8 or int8; a load of 16 bytes meets twice as many inputs. For one
    # row as bfloat16 has it on a Hopper; not measured.
    "few rows 8 bits": (
        (1, Tile(8, 4, 4)),
        (2, Tile(8, 4, 2)),
        (4, Tile(4, 4, 1)),
        (float("inf"), Tile(1, 1)),
    ),
    "few rows 8 bits, norm": (
        (1, Tile(16, 4, 4)),
        (2, Tile(8, 4, 2)),
        (4, Tile(4, 4, 1)),
        (float("inf"), Tile(1, 1)),
    ),
    "few rows 8 bits, gated": (
        (1, Tile(16, 4, 2)),
        (2, Tile(8, 4, 2)),
        (4, Tile(4, 4, 1)),
        (float("inf"), Tile(1, 1)),
    ),
    # Of weights in int8 beyond those, by rows; size: outputs of one program. For a few, small ones,
    # so that all of a card reads; a turn's inputs and weights of all stages lie in shared memory.
    "rows int8": (
        (16, Tile(16, 4, 4)),
        (64, Tile(32, 4, 3)),
        (float("inf"), Tile(128, 8, 3)),
    ),
    # Of weights of 4 bits, by rows; size: outputs of one program; stages: groups whose bytes are on
    # their way. Then beyond those. By arithmetic.
    "few rows 4 bits": (
        (1, Tile(8, 2, 8)),
        (2, Tile(8, 2, 2)),
        (4, Tile(8, 2, 1)),
        (float("inf"), Tile(1, 1)),
    ),
    "few rows 4 bits, norm": (
        (1, Tile(8, 2, 4)),
        (2, Tile(8, 2, 2)),
        (4, Tile(8, 2, 1)),
        (float("inf"), Tile(1, 1)),
    ),
    "few rows 4 bits, gated": (
        (1, Tile(16, 4, 4)),
        (2, Tile(16, 4, 2)),
        (4, Tile(16, 4, 1)),
        (float("inf"), Tile(1, 1)),
    ),
    "rows int4": (
        (16, Tile(16, 4, 4)),
        (64, Tile(32, 4, 2)),
        (float("inf"), Tile(64, 8, 2)),
    ),
    # By pairs of a token and an expert, per expert; size: outputs of one program. Of a decode step
    # few programs have anything to do, so they are small; a turn's inputs and weights of all stages
    # lie in shared memory: stages * (rows + 2 * size) * 128 bytes.
    "experts": ((16, Tile(32, 4, 4)), (float("inf"), Tile(64, 4, 3))),
    # Size: logits of one program, or of one turn of the loop.
    "vocabulary": ((float("inf"), Tile(4096, 8)),),
}


# Of capability 9.0, instead of the defaults: by whole decode steps of Qwen3 1.7B and 0.6B and of
# Whisper turbo on an H200, torch 2.11, Triton 3.6. From three rows on the library is faster.
_LIBRARY = (8, Tile(1, 1)), (float("inf"), Tile(1, 1))
HOPPER: Table = {
    "few rows": ((1, Tile(8, 4, 4)), (2, Tile(8, 4, 4)), (4, Tile(1, 1)), *_LIBRARY),
    "few rows, norm": ((1, Tile(16, 4, 4)), (2, Tile(8, 4, 4)), (4, Tile(1, 1)), *_LIBRARY),
    "few rows, gated": ((1, Tile(16, 4, 2)), (2, Tile(8, 4, 4)), (4, Tile(1, 1)), *_LIBRARY),
    "decode attention": (
        (64, Tile(128, 4, 2)),
        (128, Tile(64, 4, 2)),
        (float("inf"), Tile(32, 4, 2)),
    ),
}


_trials: ContextVar[Mapping[str, Tile]] = ContextVar("_trials", default={})  # noqa: B039


def tile(kernel: str, size: int) -> Tile:
    """The tile of a kernel of the table."""
    if (trial := _trials.get().get(kernel)) is not None:
        return trial
    return next(found for limit, found in table()[kernel] if size <= limit)


@contextmanager
def trying(kernel: str, trial: Tile) -> Iterator[None]:
    """Within it, a kernel has this tile whatever its size: for measurements."""
    before = _trials.set({**_trials.get(), kernel: trial})
    try:
        yield
    finally:
        _trials.reset(before)


def defaults() -> Table:
    """Of this machine's first card, where nothing was measured on it."""
    if torch.cuda.is_available() and torch.cuda.get_device_capability() == (9, 0):
        return {**DEFAULTS, **HOPPER}
    return DEFAULTS


@cache
def table() -> Table:
    """The defaults, and what was measured on this machine's first card instead of them."""
    known = defaults()
    if not torch.cuda.is_available():
        return known
    path = user_path(torch.cuda.get_device_name())
    try:
        return {**known, **parsed(json.loads(path.read_text(encoding="utf-8")))}
    except FileNotFoundError:
        return known
    except (OSError, ValueError) as error:
        log.warning("%s: cannot be used, kernels keep their defaults: %s", path, error)
        return known


@cache
def launches_early() -> bool:
    """Whether kernels that can are launched before the ones in front of them have ended: they
    fetch what does not depend on those, then wait (programmatic dependent launch, since Hopper;
    CUDA programming guide). LOOKHEAR_EARLY_LAUNCH=off: never."""
    if os.environ.get("LOOKHEAR_EARLY_LAUNCH", "auto") == "off" or torch.version.cuda is None:
        return False
    return torch.cuda.is_available() and torch.cuda.get_device_capability() >= (9, 0)


def user_path(device: str) -> Path:
    """Where `lookhear tune` writes by default. device: the name that torch gives it."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    name = re.sub(r"[^a-z0-9]+", "-", device.lower()).strip("-")
    return Path(base) / "lookhear" / "kernels" / f"{name}.json"


def parsed(document: Any) -> Table:
    """The tiles of a file's JSON; ValueError says what is wrong with it."""
    tiles = document.get("tiles") if isinstance(document, dict) else None
    if not isinstance(tiles, dict):
        raise ValueError(f"tiles: expected an object, got {tiles!r}")
    found: dict[str, tuple[tuple[float, Tile], ...]] = {}
    for kernel, rows in tiles.items():
        if kernel not in DEFAULTS:
            raise ValueError(f"tiles: expected one of {', '.join(DEFAULTS)}, got {kernel!r}")
        if not (isinstance(rows, list) and rows and all(_is_row(row) for row in rows)):
            raise ValueError(f"tiles: {kernel}: expected [limit, [size, warps, stages]], ...")
        limits = [math.inf if limit is None else float(limit) for limit, _ in rows]
        if limits != sorted(set(limits)) or limits[-1] != math.inf:
            raise ValueError(f"tiles: {kernel}: expected ascending limits, null last")
        found[kernel] = tuple(
            (limit, Tile(*numbers)) for limit, (_, numbers) in zip(limits, rows, strict=True)
        )
    return found


def _is_row(row: Any) -> bool:
    if not (isinstance(row, list) and len(row) == 2 and isinstance(row[1], list)):
        return False
    limit, numbers = row
    if not (limit is None or type(limit) is int) or len(numbers) != 3:
        return False
    if not all(type(n) is int and 1 <= n <= 65_536 for n in numbers):
        return False
    size, warps, stages = numbers
    # Triton takes powers of two only.
    return size & (size - 1) == 0 and warps in (1, 2, 4, 8, 16, 32) and stages <= 8
