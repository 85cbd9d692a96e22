"""Memory that was freed is there again without the kernel's help."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import resource, sys
import torch
from lookhear.engine.device.allocator import keep_freed_memory

def faults() -> int:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        torch.empty(8 << 20, dtype=torch.uint8).zero_()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

if sys.argv[1] == "keep" and not keep_freed_memory():
    sys.exit(3)
faults()
print(faults())
"""


def faults(*arguments: str) -> int:
    """Page faults of ten allocations of 8 MiB in a fresh process, once it is warm."""
    command = [sys.executable, "-c", PROGRAM, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if done.returncode == 3:
        pytest.skip("this C library has no mallopt")
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def test_freed_memory_is_used_again_without_page_faults() -> None:
    assert faults("keep") < 100  # of 20,480 pages
