"""Room for caches, of which a CPU takes memory only as far as somebody has written to it.

`torch.zeros` writes to all of its pages at once: 800 MiB for sixteen speakers of Whisper base, who
may never come. The system's own zeroed pages come one by one when they are first written.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
import torch
from torch import Tensor


def zeros(shape: Sequence[int], dtype: torch.dtype, device: torch.device | str) -> Tensor:
    """Zeros of that shape. On a CPU pages cost memory from their first write on."""
    if torch.device(device).type != "cpu":
        return torch.zeros(tuple(shape), dtype=dtype, device=device)
    size = prod(shape) * torch.empty(0, dtype=dtype).element_size()
    return torch.from_numpy(np.zeros(size, dtype=np.uint8)).view(dtype).view(tuple(shape))
