"""What the programs that measure models have in common: options, processes, an end in time."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks.gpu.models import GEOMETRIES
from benchmarks.gpu.output import end_within, output_path
from benchmarks.gpu.parts import in_processes

SECONDS = 540.0


def measure(
    options: argparse.Namespace,
    arguments: Sequence[str],
    module: str,
    models: Sequence[str],
    make: Callable[[argparse.Namespace, Sequence[str]], Any],
    shown: Callable[[dict[str, Any]], str],
) -> int:
    """One model in this process; of several, each in one of its own (`gpu.parts`), which starts
    `module` again. make: a `Bench`; shown: its result as text. Exit status: 0 measured (failures
    are in the result), 1 no device, 124 cut off."""
    if options.device != "cpu" and not torch.cuda.is_available():
        print(f"{options.program}: expected a CUDA device, torch sees none")
        return 1
    name = f"{options.program}.json"
    options.output = output_path(name, options.output, is_trial=options.device == "cpu")
    models = options.model or models
    if len(models) > 1:
        result = in_processes(module, models, arguments, options.output, options.seconds)
    else:
        bench = make(options, arguments)
        call_off = end_within(options.seconds, bench.last_words)
        bench.run(models)
        call_off()
        result = bench.result
    print(shown(result))
    return 0


def parser(program: str, description: str) -> argparse.ArgumentParser:
    """The options of the programs that measure models."""
    made = argparse.ArgumentParser(prog=program, description=description, allow_abbrev=False)
    made.set_defaults(program=program)
    made.add_argument("--device", default="cuda")
    made.add_argument("--geometry", choices=("true", "tiny"), default="true")
    made.add_argument("--model", action="append", choices=tuple(GEOMETRIES))
    made.add_argument(
        "--dtype", choices=("bfloat16", "fp8", "int8", "int4"), default="bfloat16",
        help="fp8, int8, int4: of the matrices of a Qwen3's layers",
    )  # fmt: skip
    made.add_argument(
        "--kv-cache-dtype", choices=("auto", "fp8"), default="auto",
        help="fp8: a Qwen3's keys and values are in float8",
    )  # fmt: skip
    made.add_argument("--section", action="append", default=[], help="part of a section's name")
    made.add_argument(
        "--seconds", type=float, default=SECONDS, help=f"in all (default: {SECONDS:.0f})"
    )
    made.add_argument("--output", type=Path, metavar="FILE", help=f"default: {program}.json")
    return made
