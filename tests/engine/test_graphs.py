"""The graph layer: which passes are captured, which shape a step takes, what is counted."""

from __future__ import annotations

from engine.graphs import row_buckets


def test_batch_sizes_end_with_all_rows() -> None:
    assert row_buckets(1) == [1]
    assert row_buckets(6) == [1, 2, 4, 6]
    assert row_buckets(64) == [1, 2, 4, 8, 16, 24, 32, 48, 64]
    assert row_buckets(150) == [1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 150]
