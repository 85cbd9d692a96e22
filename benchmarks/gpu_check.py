"""Whether kernels, models, graphs and overlap do on this machine's GPU what they do on a CPU.

    python -m benchmarks.gpu_check            (or: make gpu-check)

Carries out tests/gpu, the simplest first, in several processes, and writes a line of JSON for every
test as it ends (gpu-check.jsonl); at the end everything with the largest error of every test, as
JSON and as a table. A test that takes too long is ended with its process, and another goes on; what
no time was left for is named. Needs torch, triton, transformers, numpy and pytest; and a GPU, or
--dry-run. Writes to the folder in the variable OUT where it is set.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks.gpu.output import CUT_OFF, output_path, write_json
from benchmarks.gpu.pool import TestPool
from lookhear.bench.machine import describe

ROOT = Path(__file__).resolve().parent.parent
NAME = "gpu-check.json"
TESTS = ROOT / "tests" / "gpu"
# Each needs what those before it have shown; others come last.
ORDER = (
    "choices",
    "tokens",
    "attention",
    "fp8",
    "int4",
    "early_launch",
    "models",
    "overlap",
    "graphs",
)
SECONDS = 480.0  # of the whole suite, at most
TEST_SECONDS = 120.0  # of one test, what it compiles included
WORKERS = 8  # on a card: what takes the time is Python and the compiler
BAD = ("failed", "timeout", "died")


def main(argv: Sequence[str] | None = None) -> int:
    """Exit status: 0 all passed (or no device, and that was allowed), 1 not, 124 cut off."""
    options = _parser().parse_args(argv)
    if not torch.cuda.is_available() and not options.dry_run:
        print("gpu-check: expected a CUDA device, torch sees none")
        return 0 if options.allow_missing else 1
    began = time.monotonic()
    output = output_path(NAME, options.output, is_trial=options.dry_run)
    result: dict[str, Any] = {
        **describe(["benchmarks.gpu_check", *(argv or [])]),
        "device": device(),
        "dry_run": options.dry_run,
    }
    lines = None
    if output is not None:
        output.parent.mkdir(parents=True, exist_ok=True)
        lines = output.with_suffix(".jsonl").open("w", encoding="utf-8", buffering=1)
        lines.write(json.dumps(result) + "\n")

    def ended(test: dict[str, Any]) -> None:
        if lines is not None:
            lines.write(json.dumps(test) + "\n")
        print(f"{test['outcome']:8} {test['seconds']:6.1f} s  {test['name']}", flush=True)
        if test["outcome"] in BAD:
            print(test["text"] or test["message"], flush=True)

    pool = TestPool(
        ROOT, options.tests or _files(), _environment(options.dry_run), ended,
        workers=options.workers or (1 if options.dry_run else WORKERS),
        seconds=options.seconds, test_seconds=options.test_seconds,
    )  # fmt: skip
    try:
        tests = pool.run()
    finally:
        if lines is not None:
            lines.close()
    result |= {
        "seconds": round(time.monotonic() - began, 1),
        "passed": sum(test["outcome"] == "passed" for test in tests),
        "failed": sum(test["outcome"] in BAD for test in tests),
        "skipped": sum(test["outcome"] == "skipped" for test in tests),
        "left_out": pool.left_out,
        "failures": pool.failures,
        "tests": tests,
    }
    write_json(output, result)
    print(table(result))
    if pool.left_out:
        return CUT_OFF
    return 1 if result["failed"] or pool.failures or not tests else 0


def device() -> dict[str, Any]:
    """What the numbers are of."""
    if not torch.cuda.is_available():
        return {"name": "CPU"}
    found = torch.cuda.get_device_properties(0)
    return {
        "name": found.name,
        "capability": f"{found.major}.{found.minor}",
        "multiprocessors": found.multi_processor_count,
        "memory_gib": round(found.total_memory / 2**30, 1),
        "cuda": torch.version.cuda,
        "triton": _triton(),
    }


def table(result: dict[str, Any]) -> str:
    """A line per test function, over all of its parameters."""
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for test in result["tests"]:
        groups[test["name"].partition("[")[0].rpartition("/")[2]].append(test)
    width = max([40, *map(len, groups)])
    lines = [
        f"{result['device']['name']}, torch {result['torch']}: {result['passed']} passed, "
        f"{result['failed']} failed, {result['skipped']} skipped in {result['seconds']:.0f} s",
        f"{'':{width}} {'passed':>8} {'failed':>7} {'seconds':>8} {'largest error':>14}",
    ]
    for name, tests in groups.items():
        passed = sum(test["outcome"] == "passed" for test in tests)
        failed = sum(test["outcome"] in BAD for test in tests)
        errors = [
            float(t["properties"]["max_error"]) for t in tests if "max_error" in t["properties"]
        ]
        worst = f"{max(errors):.1e}" if errors else "-"
        seconds = sum(test["seconds"] for test in tests)
        lines.append(f"{name:{width}} {passed:8} {failed:7} {seconds:8.1f} {worst:>14}")
    for test in result["tests"]:
        if test["outcome"] in BAD:
            lines.append(f"{test['outcome'].upper()} {test['name']}: {test['message'][:300]}")
    lines += result["failures"]
    if result["left_out"]:
        lines.append(f"no time left for {len(result['left_out'])}:")
        lines += [f"  {name}" for name in result["left_out"]]
    return "\n".join(lines)


def _files() -> list[str]:
    """The tests, the simplest first."""

    def place(path: Path) -> tuple[int, str]:
        name = path.stem.removeprefix("test_")
        return (ORDER.index(name) if name in ORDER else len(ORDER), name)

    return [str(path.relative_to(ROOT)) for path in sorted(TESTS.glob("test_*.py"), key=place)]


def _environment(is_dry: bool) -> dict[str, str]:
    return {
        **os.environ,
        # Compiled kernels; products and sums may be one instruction, as they are when serving.
        "TRITON_INTERPRET": "1" if is_dry else "0",
        "TRITON_DEFAULT_FP_FUSION": "1",
        "LOOKHEAR_GPU_DRY_RUN": "1" if is_dry else "0",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTHONUNBUFFERED": "1",
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "2"),
    }


def _triton() -> str | None:
    try:
        import triton
    except ImportError:
        return None
    return str(triton.__version__)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gpu-check", description="Check kernels and models on this machine's GPU."
    )
    parser.add_argument("tests", nargs="*", help="files or test ids (default: all of tests/gpu)")
    parser.add_argument("--allow-missing", action="store_true", help="without a GPU, exit with 0")
    parser.add_argument(
        "--dry-run", action="store_true", help="on the CPU, small, under Triton's interpreter"
    )
    parser.add_argument("--output", type=Path, metavar="FILE", help=f"default: {NAME}")
    parser.add_argument(
        "-n", "--workers", type=int, default=0, help=f"processes (default: {WORKERS}; dry: 1)"
    )
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, help=f"in all, at most (default: {SECONDS:.0f})"
    )
    parser.add_argument(
        "--test-seconds", type=float, default=TEST_SECONDS,
        help=f"of a test, at most (default: {TEST_SECONDS:.0f})",
    )  # fmt: skip
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
