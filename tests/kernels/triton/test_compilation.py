"""Every kernel compiles for a GPU, where there is none: what the interpreter takes, Triton's
compiler may refuse. Down to machine code, at the sizes of real models, and where sizes are 1:
Triton makes constants of arguments that are."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parent / "compile_kernels.py"
ROOT = Path(__file__).parents[3]


def test_every_kernel_compiles_and_fits() -> None:
    outcome = subprocess.run(
        [sys.executable, "-W", "ignore", str(SCRIPT)],
        env={**os.environ, "TRITON_INTERPRET": "0", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert outcome.returncode == 0, outcome.stderr
    compiled = [line.split() for line in outcome.stdout.splitlines()]
    defined = {
        line.removeprefix("def ").split("(")[0]
        for path in (ROOT / "kernels" / "triton").glob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
        if line.startswith("def _") and "_kernel(" in line
    }
    assert {name for name, _ in compiled} == defined
    # What a program may have on any card since Ampere.
    assert not {name: shared for name, shared in compiled if int(shared) > 99 * 1024}
