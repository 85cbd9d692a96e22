"""Memory that was freed is there again without the kernel's help, and few products are kept."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from lookhear.engine.device.allocator import CAPACITIES, PRODUCTS, keep_fewer_products

# Where the C library puts a block depends on the heap's random place, so a round now and then needs
# new pages in any process: the round with the fewest counts.
PROGRAM = """
import resource, sys
import torch
from lookhear.engine.device.allocator import keep_freed_memory

def faults() -> int:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(5):
        blocks = [torch.empty(24 << 20, dtype=torch.uint8).zero_() for _ in range(4)]
        del blocks
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

if sys.argv[1] == "keep" and not keep_freed_memory():
    sys.exit(3)
faults()
print(min(faults() for _ in range(5)))
"""
NUM_BYTES = 5 * 4 * 24 * 2**20  # written in a round
PAGE_BYTES = 4096

# Without these glibc gives memory back in some processes and keeps it in others.
GIVE_BACK = {"MALLOC_MMAP_THRESHOLD_": "131072", "MALLOC_TRIM_THRESHOLD_": "131072"}


def faults(argument: str) -> int:
    """Page faults of a round in a fresh process that was told to give memory back."""
    command = [sys.executable, "-c", PROGRAM, argument]
    environment = {**os.environ, **GIVE_BACK}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)
    if done.returncode == 3:
        pytest.skip("this C library has no mallopt")
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def test_freed_memory_is_used_again_without_page_faults() -> None:
    num_pages = NUM_BYTES // PAGE_BYTES
    assert faults("keep") < num_pages // 20
    assert faults("give back") > num_pages // 2


def test_few_products_are_kept_unless_the_environment_says_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, *others = CAPACITIES
    monkeypatch.setenv(first, "7")
    for name in others:
        monkeypatch.setenv(name, "")  # so that it is as it was after the test
        monkeypatch.delenv(name)
    keep_fewer_products()
    assert os.environ[first] == "7"
    for name in others:
        assert os.environ[name] == str(PRODUCTS)
