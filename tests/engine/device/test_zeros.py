"""Room for caches: zeros like torch's, that cost memory only where somebody wrote."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
import torch

from lookhear.engine.device.zeros import zeros

MIB = 2**20


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.int8])
def test_are_those_of_torch(dtype: torch.dtype) -> None:
    made, torchs = zeros((3, 5, 7), dtype, "cpu"), torch.zeros(3, 5, 7, dtype=dtype)
    assert made.dtype == dtype
    assert made.is_contiguous()
    assert torch.equal(made, torchs)
    made[1] = 3  # as writable as any
    assert torch.equal(made, torchs.index_fill(0, torch.tensor([1]), 3))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="counts pages as Linux does")
def test_cost_memory_where_they_were_written() -> None:
    before = _resident()
    room = zeros((256, MIB), torch.uint8, "cpu")
    assert _resident() - before < 64 * MIB
    room[:128] = 1
    assert _resident() - before > 96 * MIB


def _resident() -> int:
    """Bytes of this process that are in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
