"""How alike vectors are."""

from __future__ import annotations

import numpy as np

from lookhear.engine.pooling.vectors import cosine


def test_a_cosine_is_never_beyond_one() -> None:
    """Lengths are 1 but for rounding; what takes scores may be strict about what they may be."""
    rng = np.random.default_rng(0)
    same = [rng.standard_normal((1, 192)).astype(np.float32) for _ in range(200)]
    assert max(cosine(one, one) for one in same) == 1.0
    assert min(cosine(one, -one) for one in same) == -1.0
