from __future__ import annotations

import pytest
import torch

from lookhear.engine.paged.cache import PagedCache
from tests.engine.batches import paged_batch


def test_one_zeroed_tensor_per_layer() -> None:
    cache = PagedCache(3, 5, 2, 4, torch.bfloat16)
    assert [tuple(layer.shape) for layer in cache.layers] == [(2, 5, 16, 2, 4)] * 3
    assert not any(layer.any() for layer in cache.layers)
    assert cache.num_bytes == 3 * 2 * 5 * 16 * 2 * 4 * 2


def test_slots_follow_the_tables_and_padding_goes_to_the_trash_block() -> None:
    batch = paged_batch([[7, 2], [5], [3]], [15, 0, 4], [3, 2, 0], num_tokens=8)
    assert batch.slots[:5].tolist() == [7 * 16 + 15, 2 * 16, 2 * 16 + 1, 5 * 16, 5 * 16 + 1]
    assert all(0 <= slot < 16 for slot in batch.slots[5:].tolist())
    assert batch.positions.tolist() == [15, 16, 17, 0, 1, 0, 0, 0]
    assert batch.block_tables.tolist() == [[7, 2], [5, 0], [3, 0]]


def test_positions_may_be_given() -> None:
    positions = torch.arange(6).view(3, 2)
    assert paged_batch([[1]], [0], [2], positions=positions).positions is positions


@pytest.mark.parametrize(
    ("tables", "past", "new", "tokens"),
    [
        ([[1]], [10], [7], None),  # more tokens than blocks
        ([[0]], [0], [1], None),  # the trash block in a table
        ([[1]], [0], [3], 2),  # more tokens than the step
    ],
)
def test_impossible_batches_are_our_bugs(
    tables: list[list[int]], past: list[int], new: list[int], tokens: int | None
) -> None:
    with pytest.raises(AssertionError):
        paged_batch(tables, past, new, num_tokens=tokens)


def test_rows_without_tokens_are_possible() -> None:
    batch = paged_batch([[]], [0], [0], num_tokens=2)
    assert batch.block_tables.shape == (1, 0)
    assert batch.block_tables.dtype == batch.slots.dtype == torch.int64
