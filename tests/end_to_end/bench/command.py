"""`lookhear bench` as people run it."""

from __future__ import annotations

import subprocess
import sys


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "lookhear", "bench", *arguments],
        capture_output=True,
        text=True,
        timeout=240,
    )
