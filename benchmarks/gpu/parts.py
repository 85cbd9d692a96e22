"""A measurement of several models, each by a process of its own: what one leaves behind on the
device, a fault included, is gone before the next begins."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.gpu.output import GRACE, write_json

ROOT = Path(__file__).resolve().parents[2]
LEAST = 30.0  # seconds that are worth a start
START = 10.0  # seconds until a process has imported what it needs


def in_processes(
    module: str,
    models: Sequence[str],
    arguments: Sequence[str],
    output: Path | None,
    seconds: float,
) -> dict[str, Any]:
    """What all of them measured, as one result, written after each. arguments: of every process,
    whose model, output and seconds are those given last. An even share of the time for each, and
    what one leaves to those behind it."""
    result: dict[str, Any] = {"models": {}, "failures": []}
    end = time.monotonic() + seconds
    if module == "__main__":
        module = _own_name()
    for number, model in enumerate(models):
        share = (end - time.monotonic()) / (len(models) - number)
        with tempfile.TemporaryDirectory() as scratch:
            part = Path(scratch) / "part.json"
            print(f"--- {model}, {share:.0f} s", flush=True)
            own = _only(arguments, model, part, share - START)
            status = _run(module, own, share)
            found = json.loads(part.read_text(encoding="utf-8")) if part.is_file() else {}
        if status != 0:
            result["failures"].append(f"{model}: its process ended with {status}")
        result["models"] |= found.pop("models", {})
        result["failures"] += found.pop("failures", [])
        result = {**found, **result}
        write_json(output, result)
    return result


def _only(arguments: Sequence[str], model: str, output: Path, seconds: float) -> list[str]:
    """The arguments, of which `--model` would add up."""
    kept: list[str] = []
    rest = iter(arguments)
    for argument in rest:
        if argument == "--model":
            next(rest)
        elif not argument.startswith("--model="):
            kept.append(argument)
    return [*kept, "--model", model, "--output", str(output), "--seconds", f"{seconds:.0f}"]


def _run(module: str, arguments: list[str], seconds: float) -> int | str:
    if seconds < LEAST:
        return "no time left"
    command = [sys.executable, "-m", module, *arguments]
    try:
        # It ends itself in time; a process that cannot is ended.
        return subprocess.run(command, cwd=ROOT, timeout=seconds + 2 * GRACE).returncode
    except subprocess.TimeoutExpired:
        return "a kill, no time left"


def _own_name() -> str:
    spec = sys.modules["__main__"].__spec__
    assert spec is not None, "expected a program that was started with python -m"
    return spec.name
