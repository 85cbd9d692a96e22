"""Whether kernels, models, graphs and overlap do on this machine's GPU what they do on a CPU.

    python -m benchmarks.gpu_check            (or: make gpu-check)

Runs tests/gpu and writes what came of it, with the largest error of every test, as JSON and as a
table. Needs torch, triton, transformers, numpy and pytest; and a GPU, or --dry-run.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import torch

from lookhear.bench.machine import describe

ROOT = Path(__file__).resolve().parent.parent
RESULT = ROOT / "benchmarks" / "results" / "gpu-check.json"
TESTS = ROOT / "tests" / "gpu"
SECONDS = 480  # of the whole suite, at most


def main(argv: Sequence[str] | None = None) -> int:
    """Exit status: 0 all passed (or no device, and that was allowed), 1 not."""
    options = _parser().parse_args(argv)
    if not torch.cuda.is_available() and not options.dry_run:
        print("gpu-check: expected a CUDA device, torch sees none")
        return 0 if options.allow_missing else 1
    began = time.monotonic()
    status, tests = 0, []
    # File by file: should one hang, the others still have a result.
    for path in options.tests or sorted(map(str, TESTS.glob("test_*.py"))):
        with tempfile.TemporaryDirectory() as scratch:
            report = Path(scratch) / "report.xml"
            left = began + options.seconds - time.monotonic()
            status = _run(report, path, options.dry_run, left) or status
            tests += _read(report)
    seconds = time.monotonic() - began
    failed = [test for test in tests if test["outcome"] in ("failed", "error")]
    result = {
        **describe(["benchmarks.gpu_check", *(argv or [])]),
        "device": device(),
        "dry_run": options.dry_run,
        "seconds": round(seconds, 1),
        "exit_status": status,
        "passed": sum(test["outcome"] == "passed" for test in tests),
        "failed": len(failed),
        "skipped": sum(test["outcome"] == "skipped" for test in tests),
        "tests": tests,
    }
    output = options.output or (None if options.dry_run else RESULT)
    if output is not None:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(table(result))
    return 0 if status == 0 and not failed else 1


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
        groups[test["name"].partition("[")[0]].append(test)
    width = max([40, *map(len, groups)])
    lines = [
        f"{result['device']['name']}, torch {result['torch']}: {result['passed']} passed, "
        f"{result['failed']} failed, {result['skipped']} skipped in {result['seconds']:.0f} s",
        f"{'':{width}} {'passed':>8} {'failed':>7} {'seconds':>8} {'largest error':>14}",
    ]
    for name, tests in groups.items():
        passed = sum(test["outcome"] == "passed" for test in tests)
        failed = sum(test["outcome"] in ("failed", "error") for test in tests)
        errors = [
            float(t["properties"]["max_error"]) for t in tests if "max_error" in t["properties"]
        ]
        worst = f"{max(errors):.1e}" if errors else "-"
        seconds = sum(test["seconds"] for test in tests)
        lines.append(f"{name:{width}} {passed:8} {failed:7} {seconds:8.1f} {worst:>14}")
    for test in result["tests"]:
        if test["outcome"] in ("failed", "error"):
            lines.append(f"FAILED {test['name']}: {test['message'][:300]}")
    return "\n".join(lines)


def _run(report: Path, path: str, is_dry: bool, seconds: float) -> int:
    """pytest's exit status, or 124 if it took too long."""
    if seconds <= 0:
        print(f"gpu-check: no time left for {path}", file=sys.stderr)
        return 124
    command = [
        sys.executable, "-m", "pytest", "-c", "tests/gpu/pytest.ini", "--rootdir", ".", "-q",
        "-p", "no:cacheprovider", f"--junitxml={report}", "-o", "junit_family=xunit1", path,
    ]  # fmt: skip
    environment = {
        **os.environ,
        # Compiled kernels; products and sums may be one instruction, as they are when serving.
        "TRITON_INTERPRET": "1" if is_dry else "0",
        "TRITON_DEFAULT_FP_FUSION": "1",
        "LOOKHEAR_GPU_DRY_RUN": "1" if is_dry else "0",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTHONUNBUFFERED": "1",
    }
    try:
        return subprocess.run(command, cwd=ROOT, env=environment, timeout=seconds).returncode
    except subprocess.TimeoutExpired:
        print(f"gpu-check: expected {path} to end within {seconds:.0f} s, stopped", file=sys.stderr)
        return 124


def _read(report: Path) -> list[dict[str, Any]]:
    """Outcome, seconds and properties of every test."""
    if not report.is_file():
        return []
    found = []
    for case in ElementTree.parse(report).iter("testcase"):
        outcome, message = "passed", ""
        for kind, name in (("failure", "failed"), ("error", "error"), ("skipped", "skipped")):
            node = case.find(kind)
            if node is not None:
                outcome, message = name, node.get("message", "")
        properties = {p.get("name", ""): p.get("value", "") for p in case.iter("property")}
        module = case.get("classname", "").rpartition(".")[2]
        found.append(
            {
                "name": f"{module}.{case.get('name')}",
                "outcome": outcome,
                "seconds": round(float(case.get("time", 0)), 2),
                "properties": properties,
                "message": message,
            }
        )
    return found


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
    parser.add_argument("--output", type=Path, metavar="FILE", help=f"default: {RESULT.name}")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="at most (default: 480)")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
