"""How much two pictures differ: enough to keep of a live camera only what changed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from PIL import Image as pillow

__all__ = ["Thumbnail", "difference", "thumbnail"]

Thumbnail = NDArray[np.float32]

SIDE = 32


def thumbnail(pixels: NDArray[np.uint8], side: int = SIDE) -> Thumbnail:
    """[height, width, 3] uint8 RGB -> [side, side] float32 luma, 0 to 1 (ITU-R BT.601 weights).

    Every value is the mean of its part of the picture, so noise and compression hardly show.
    """
    small = pillow.fromarray(pixels).resize((side, side), pillow.Resampling.BOX)
    return np.asarray(small.convert("L"), dtype=np.float32) / np.float32(255)


def difference(one: Thumbnail, other: Thumbnail) -> float:
    """Mean absolute difference of two thumbnails: 0 (the same) to 1 (black and white).

    Compare with the last frame that was kept, not with the last one seen: a slow change adds up.
    Noise averages out (below 0.005 for a camera's in good light); what changes a quarter of the
    picture by a fifth of the range makes 0.05. A change of the exposure counts as one of the scene.
    """
    return float(np.abs(one - other).mean())
