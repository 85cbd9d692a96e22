"""Kernels that were compiled for a GPU, where there is none, by a process of its own: here they are
interpreted."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parent / "compile_kernels.py"
ROOT = Path(__file__).parents[4]


def compiled(part: str) -> list[list[str]]:
    """A line for each kernel; see `compile_kernels.py`."""
    outcome = subprocess.run(
        [sys.executable, "-W", "ignore", str(SCRIPT), part],
        env={**os.environ, "TRITON_INTERPRET": "0", "PYTHONPATH": str(ROOT / "clients")},
        capture_output=True,
        text=True,
    )
    assert outcome.returncode == 0, outcome.stderr
    return [line.split() for line in outcome.stdout.splitlines()]
