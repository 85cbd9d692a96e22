"""`python -m benchmarks.in_process.products`: what a product with fixed weights takes, by layout.

One thread, milliseconds of its processor time (what else runs shows in the caches alone), median of
rounds in which the layouts take turns; the shapes of Whisper tiny and base. Which layout a model
uses where, `kernels.linear` says by these numbers.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

from lookhear.kernels import LinearWeights, linear, pack_linear

MANY_ROWS, FEW_ROWS = (1500, 500, 64), (1, 2, 4, 8)
HEAD = 51_864
ROUND_SECONDS = 0.02  # of each layout, at least
LAYOUTS = ("packed float32", "packed bfloat16", "half", "int8")


def shapes(width: int) -> list[tuple[int, int, int]]:
    """(rows, inputs, outputs) of an encoder, then of a decoder."""
    squares = [(width, width), (width, 3 * width), (width, 4 * width), (4 * width, width)]
    few = [*squares, (width, HEAD)]
    return [
        *((rows, *shape) for rows in MANY_ROWS for shape in squares),
        *((rows, *shape) for rows in FEW_ROWS for shape in few),
    ]


def packed(weight: Tensor, bias: Tensor, layout: str) -> LinearWeights | None:
    """None where this machine has no such layout."""
    if layout == "half":
        made = pack_linear(weight, bias, half=True)
        return made if made.half is not None else None
    if layout == "int8":
        made = pack_linear(weight, bias, pack=True, int8=True)
        return made if made.int8 is not None else None
    dtype = getattr(torch, layout.removeprefix("packed "))
    made = pack_linear(weight.to(dtype), bias.to(dtype), pack=True)
    return made if made.packed else None


def seconds(products: Sequence[Callable[[], object]], rounds: int) -> list[float]:
    """Of one call of each, the median."""
    counts: list[int] = []
    measured: list[list[float]] = [[] for _ in products]
    for product in products:
        product()
        began = time.thread_time()
        product()
        counts.append(1 + int(ROUND_SECONDS / max(1e-5, time.thread_time() - began)))
    for _ in range(rounds):
        for product, count, times in zip(products, counts, measured, strict=True):
            began = time.thread_time()
            for _ in range(count):
                product()
            times.append((time.thread_time() - began) / count)
    return [statistics.median(times) for times in measured]


@torch.inference_mode()
def main(argv: Sequence[str]) -> int:
    """Prints a row for each shape, with the times of `LAYOUTS`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--width", type=int, nargs="+", default=[384, 512])
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args(argv)
    torch.set_num_threads(1)
    table = Table("rows", "inputs", "outputs", *LAYOUTS, title="ms")
    for rows, inside, outside in [s for width in options.width for s in shapes(width)]:
        weight, bias = torch.randn(outside, inside) * 0.05, torch.randn(outside)
        x = torch.randn(rows, inside)
        calls: dict[str, Callable[[], object]] = {}
        for name in LAYOUTS:
            weights = packed(weight, bias, name)
            if weights is not None:
                dtype = torch.bfloat16 if "bfloat16" in name else torch.float32
                calls[name] = partial(linear, x.to(dtype), weights)
        took = dict(zip(calls, seconds([*calls.values()], options.rounds), strict=True))
        cells = [f"{1e3 * took[name]:.3g}" if name in took else "-" for name in LAYOUTS]
        table.add_row(str(rows), str(inside), str(outside), *cells)
    Console().print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
