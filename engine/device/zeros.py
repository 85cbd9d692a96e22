"""Room for caches, of which a CPU takes memory only as far as somebody has written to it.

`torch.zeros` writes to all of its pages at once: 800 MiB for sixteen speakers of Whisper base, who
may never come. The system's own zeroed pages come one by one when they are first written. Small
ones: a speaker writes to the beginnings of many stretches, and each would cost 2 MiB in the huge
pages that Linux is free to give, and that NumPy asks it for.
"""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from contextlib import suppress
from math import prod

import torch
from torch import Tensor


def zeros(shape: Sequence[int], dtype: torch.dtype, device: torch.device | str) -> Tensor:
    """Zeros of that shape. On a CPU pages cost memory from their first write on."""
    if torch.device(device).type != "cpu":
        return torch.zeros(tuple(shape), dtype=dtype, device=device)
    size = prod(shape) * torch.empty(0, dtype=dtype).element_size()
    pages = mmap.mmap(-1, size, access=mmap.ACCESS_COPY)  # nobody else's
    if hasattr(mmap, "MADV_NOHUGEPAGE"):
        with suppress(OSError):  # a Linux without huge pages
            pages.madvise(mmap.MADV_NOHUGEPAGE)
    return torch.frombuffer(pages, dtype=dtype).view(tuple(shape))
