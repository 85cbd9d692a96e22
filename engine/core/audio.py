"""Samples that lie somewhere. Pure."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Samples = NDArray[np.float32]


class Audio(Protocol):
    """Mono float32: an array, or what makes arrays of its parts when they are asked for."""

    def __len__(self) -> int:
        """How many samples there are."""

    def __getitem__(self, where: slice, /) -> Samples:
        """Those that are asked for, in one; they do not change."""
