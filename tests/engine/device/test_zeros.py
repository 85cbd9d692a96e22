"""Room for caches: zeros like torch's, that cost memory only where somebody wrote."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from lookhear.engine.device.zeros import zeros


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.int8])
def test_are_those_of_torch(dtype: torch.dtype) -> None:
    made, torchs = zeros((3, 5, 7), dtype, "cpu"), torch.zeros(3, 5, 7, dtype=dtype)
    assert made.dtype == dtype
    assert made.is_contiguous()
    assert torch.equal(made, torchs)
    made[1] = 3  # as writable as any
    assert torch.equal(made, torchs.index_fill(0, torch.tensor([1]), 3))


# In a process of its own: one that has freed as much before gives that away again.
CODE = """
import os
from pathlib import Path
import torch
from lookhear.engine.device.zeros import zeros

def resident():
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // 2**20

before = resident()
room = zeros((256, 2**20), torch.uint8, "cpu")
made = resident() - before
room[:128] = 1
written = resident() - before
scattered = zeros((256, 2**20), torch.uint8, "cpu")
scattered[:, 0] = 1
print(made, written, resident() - before - written)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="counts pages as Linux does")
def test_cost_memory_where_they_were_written() -> None:
    outcome = subprocess.run(
        [sys.executable, "-c", CODE], capture_output=True, text=True, timeout=120, check=True
    )
    made, written, scattered = map(int, outcome.stdout.split())
    assert made < 16 and 112 < written < 160 and scattered < 16, outcome.stdout  # MiB
