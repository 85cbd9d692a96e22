"""The difference of two camera frames."""

from __future__ import annotations

import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image as pillow

from lookhear.media.pictures.similarity import difference, thumbnail


def scene(height: int = 240, width: int = 320) -> np.ndarray:
    y, x = np.mgrid[:height, :width]
    return np.stack([x * 255 // width, y * 255 // height, (x + y) % 256], axis=-1).astype(np.uint8)


def test_ends_of_the_scale() -> None:
    black, white = np.zeros((90, 160, 3), np.uint8), np.full((90, 160, 3), 255, np.uint8)
    assert difference(thumbnail(black), thumbnail(black)) == 0
    assert difference(thumbnail(black), thumbnail(white)) == pytest.approx(1)
    assert thumbnail(white).shape == (32, 32) and thumbnail(white).dtype == np.float32
    assert thumbnail(white, 8).shape == (8, 8)


def test_noise_and_compression_hardly_show_and_change_does() -> None:
    still = thumbnail(scene())
    noise = np.random.default_rng(0).normal(0, 6, scene().shape)
    noisy = np.clip(scene() + noise, 0, 255).astype(np.uint8)
    assert difference(still, thumbnail(noisy)) < 0.005
    buffer = io.BytesIO()
    pillow.fromarray(scene()).save(buffer, "JPEG", quality=60)
    assert difference(still, thumbnail(np.asarray(pillow.open(buffer)))) < 0.005
    changed = np.full((240, 320, 3), 100, np.uint8)
    before = thumbnail(changed)
    changed[:120, :160] = 151  # a quarter, by a fifth of the range
    assert difference(before, thumbnail(changed)) == pytest.approx(0.05, abs=0.002)


def test_size_does_not_matter() -> None:
    assert difference(thumbnail(scene(240, 320)), thumbnail(scene(480, 640))) < 0.03
    assert thumbnail(scene(1, 5)).shape == (32, 32)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_a_metric(seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b, c = (thumbnail(rng.integers(0, 256, (16, 16, 3), np.uint8), 4) for _ in range(3))
    assert difference(a, b) == difference(b, a) and 0 <= difference(a, b) <= 1
    assert difference(a, c) <= difference(a, b) + difference(b, c) + 1e-6
