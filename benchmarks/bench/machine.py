"""What a number was measured on: it means nothing without."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lookhear.commands.machine import cores, cpu, instructions, version


def _commit() -> str:
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        done = subprocess.run(
            command, cwd=Path(__file__).resolve().parent, capture_output=True, text=True, timeout=10
        )
        return done.stdout.strip() or "unknown"
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"


def load_average() -> list[float]:
    """Runnable processes over the last 1, 5 and 15 minutes: what else the machine was doing."""
    return [round(value, 2) for value in os.getloadavg()]


def describe(argv: list[str]) -> dict[str, Any]:
    """Machine, software and command; the load average is the one before the run."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": " ".join(["python", "-m", *argv]),
        "commit": _commit(),
        "cpu": cpu(),
        "cpu_instructions": instructions(),
        "cores": cores(),
        "load_average_before": load_average(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "torch": version("torch"),
        "lookhear": version("lookhear"),
    }
