"""Room for caches: zeros like torch's, that cost memory only where somebody wrote."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
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


@pytest.mark.skipif(not Path("/proc/self/pagemap").exists(), reason="reads a table of Linux")
def test_cost_memory_where_they_were_written() -> None:
    room = zeros((256, MIB), torch.uint8, "cpu")
    assert _in_memory(room) < MIB
    room[:128] = 1
    assert 128 * MIB <= _in_memory(room) < 132 * MIB  # a page may be as large as 2 MiB


def _in_memory(room: torch.Tensor) -> int:
    """Bytes of a tensor's own pages that are in memory.

    What the whole process holds would not do: threads of other tests take memory meanwhile.
    """
    page = os.sysconf("SC_PAGE_SIZE")
    first, last = room.data_ptr() // page, (room.data_ptr() + room.nbytes - 1) // page
    with Path("/proc/self/pagemap").open("rb") as pages:
        pages.seek(8 * first)
        entries = np.frombuffer(pages.read(8 * (last - first + 1)), dtype=np.uint64)
    return int(np.count_nonzero(entries >> np.uint64(63))) * page
