"""What this machine is: processor, memory, GPUs, versions. Reads, imports nothing heavy."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from importlib import metadata
from pathlib import Path

# Of a processor: what its matrix products are made with. Its name alone hides a factor of three.
INSTRUCTIONS = ("avx2", "avx512f", "avx512_bf16", "avx512_vnni", "amx_bf16", "amx_int8")
ARM_INSTRUCTIONS = ("asimd", "asimdhp", "asimddp", "bf16", "i8mm", "sve", "sve2")
_SECONDS = 10.0  # that a tool of the system may take


def cpu() -> str:
    """Its name."""
    return _cpuinfo("model name") or platform.processor() or platform.machine()


def instructions() -> list[str]:
    """Those of its instruction sets that matter here."""
    flags = set((_cpuinfo("flags") or _cpuinfo("Features")).split())
    return [name for name in (*INSTRUCTIONS, *ARM_INSTRUCTIONS) if name in flags]


def cores() -> int | None:
    """That this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count()


def memory() -> int | None:
    """Bytes; None if the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not on Windows
        return None


def gpus() -> list[str]:
    """Names, memory and driver of NVIDIA's, as its own tool tells them; none without it."""
    columns = "--query-gpu=name,memory.total,driver_version"
    try:
        done = subprocess.run(
            ["nvidia-smi", columns, "--format=csv,noheader"],
            capture_output=True, text=True, timeout=_SECONDS,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return []
    return done.stdout.split("\n")[:-1] if done.returncode == 0 else []


def version(package: str) -> str | None:
    """Of an installed distribution."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _cpuinfo(field: str) -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith(field):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return ""
