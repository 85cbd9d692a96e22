"""Where audio may be cut without hitting a word."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lookhear.engine.messages import SAMPLE_RATE


def quietest(samples: NDArray[np.float32], width: int = SAMPLE_RATE // 10) -> int:
    """Offset of the middle of the quietest stretch of `width` samples (or the end, if shorter)."""
    if len(samples) <= width:
        return len(samples)
    energy = np.concatenate([[0.0], np.cumsum(np.square(samples, dtype=np.float64))])
    stretch = energy[width:] - energy[:-width]
    return int(np.argmin(stretch)) + width // 2
