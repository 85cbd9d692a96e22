"""Sizes at which demo-qwen3-vl is shown pictures, in tokens of 32 x 32 pixels: those that its
processor's limits lead to from pictures of any size."""

from __future__ import annotations

import math
import random

from tools.recipes.qwen3_vl.export import IMAGE_TOKENS, LIVE_FRAME_TOKENS, VIDEO_TOKENS
from tools.recipes.qwen3_vl.network import FRAMES

FRAME_COUNTS = (2, 3, 4, 4, 5, 6, 6, 7, 8, 8)
FEWEST_OF_FRAME = 8


def _grid(rng: random.Random, least: int, most: int) -> tuple[int, int]:
    """Height and width with a product within the limits, neither twice the other or more."""
    while True:
        area, aspect = rng.uniform(least, most), math.exp(rng.uniform(-0.62, 0.66))
        height, width = round(math.sqrt(area / aspect)), round(math.sqrt(area * aspect))
        if least <= height * width <= most and max(height, width) <= 2 * min(height, width):
            return height, width


def image_grid(rng: random.Random) -> tuple[int, int]:
    """Height and width of an image."""
    return _grid(rng, *IMAGE_TOKENS)


def clip_grid(rng: random.Random) -> tuple[int, int, int]:
    """Height and width of a clip's frames, and how many there are."""
    frames = rng.choice(FRAME_COUNTS)
    # As the reference counts frames: to the nearest pair, an odd pair to the even.
    counted = max(FRAMES, round(frames / FRAMES) * FRAMES)
    least = max(FEWEST_OF_FRAME, math.ceil(VIDEO_TOKENS[0] / counted))
    return *_grid(rng, least, VIDEO_TOKENS[1] // counted), frames


def live_grid(rng: random.Random) -> tuple[int, int]:
    """Height and width of a camera's frames: near the limit, small frames being enlarged."""
    return _grid(rng, LIVE_FRAME_TOKENS // 2, LIVE_FRAME_TOKENS + 5)
