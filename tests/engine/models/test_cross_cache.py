from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lookhear.engine.models.caches import TRASH_SLOT, CrossCache


def cache_of(slots: int) -> CrossCache:
    return CrossCache(slots, layers=2, heads=3, positions=5, head_dim=4)


def windows(batch: int, positions: int, seed: int = 0) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(batch, 2, 3, positions, 4, generator=generator) for _ in range(2)]


def test_write_fills_its_slots_and_nothing_else() -> None:
    cache = cache_of(3)
    cache.data.fill_(torch.nan)
    slots = [s for s in (cache.allocate(), cache.allocate(), cache.allocate()) if s is not None]
    projected = windows(2, 5)
    cache.write([slots[2], slots[0]], projected, [5, 3])
    assert cache.lengths.tolist() == [1, 3, 0, 5]
    for layer in range(2):
        assert torch.equal(cache.data[layer, 3], projected[layer][0])
        assert torch.equal(cache.data[layer, 1, :, :, :3], projected[layer][1, :, :, :3])
        assert cache.data[layer, 1, :, :, 3:].isnan().all()
        assert cache.data[layer, [0, 2]].isnan().all()
    cache.free(slots[0])
    assert cache.lengths[slots[0]] == 0
    cache.check()


@settings(deadline=None)
@given(slots=st.integers(1, 6), choices=st.lists(st.integers(-1, 5), max_size=60))
def test_any_sequence_of_allocate_write_and_free(slots: int, choices: list[int]) -> None:
    """-1 allocates and writes; another number frees the slot held at that place, if any."""
    cache = cache_of(slots)
    held: list[int] = []
    for choice in choices:
        if choice < 0:
            slot = cache.allocate()
            assert (slot is None) == (len(held) == slots)
            if slot is not None:
                assert slot not in held and slot != TRASH_SLOT and cache.lengths[slot] == 0
                cache.write([slot], windows(1, 4), [4])
                held.append(slot)
        elif choice < len(held):
            cache.free(held.pop(choice))
        cache.check()
        assert cache.num_free == slots - len(held)


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(1, 4), st.integers(0, 1), st.sampled_from([None, 1, 7])),
        min_size=1,
        max_size=12,
    )
)
def test_behind_every_window_stands_the_rest(
    windows_heard: list[tuple[int, int, int | None]],
) -> None:
    cache = cache_of(1)
    cache.data.fill_(torch.nan)
    slot = cache.allocate()
    assert slot is not None
    for seed, (length, behind, size) in enumerate(windows_heard):
        projected, rest = windows(1, length, seed), windows(1, behind, seed + 100)
        sizes = None if size is None else torch.full((behind,), size)
        cache.write([slot], projected, [length], rest, sizes)
        end = length + behind
        assert cache.lengths[slot] == end
        for layer in range(2):
            expected = torch.cat([projected[layer], rest[layer]], dim=3)
            assert torch.equal(cache.data[layer, slot, :, :, :end], expected[0])
        counts = torch.tensor([1.0] * length + [float(size or 1)] * behind)
        if cache.bias is None:
            assert size is None
        else:
            assert torch.equal(cache.bias[slot, :end], counts.log())


def test_misuse_is_a_bug() -> None:
    cache = cache_of(2)
    with pytest.raises(AssertionError, match="slot 1 is not allocated"):
        cache.free(1)
    with pytest.raises(AssertionError, match="slot 1 is not allocated"):
        cache.write([1], windows(1, 4), [4])
    slot = cache.allocate()
    assert slot is not None
    for length in (0, 5):
        with pytest.raises(AssertionError):
            cache.write([slot], windows(1, 4), [length])
