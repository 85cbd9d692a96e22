"""The silence behind a short window."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lookhear.engine.models.caches import CrossCache
from lookhear.engine.whisper.silence import EncodedSilence
from lookhear.kernels import attention, biased_cross_attention, cross_attention_cached

HEADS, DIM = 2, 8


def draw(positions: int, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(1, positions, HEADS, DIM, generator=generator)


@settings(deadline=None)
@given(
    positions=st.integers(2, 60),
    share=st.floats(0.0, 1.0),
    group=st.integers(1, 30),
    batch=st.integers(1, 3),
)
def test_a_group_counts_as_often_as_there_are_positions_in_it(
    positions: int, share: float, group: int, batch: int
) -> None:
    # Where all silent positions are alike, their mean is none of an approximation.
    keys, values = (
        draw(1, 1).expand(-1, positions, -1, -1),
        draw(1, 2).expand(-1, positions, -1, -1),
    )
    cross = [torch.zeros(1, 2, HEADS, positions, DIM)]
    silence = EncodedSilence.of([(keys, values)], cross, group)
    n = max(group, round(share * (positions - 1)) // group * group)
    if n >= positions:
        return
    q, k, v = (draw(n, seed).expand(batch, -1, -1, -1) for seed in (3, 4, 5))
    ours = silence.attention(0, q, k, v)
    whole = [
        torch.cat([own, rest[:, n:].expand(batch, -1, -1, -1)], dim=1)
        for own, rest in ((k, keys), (v, values))
    ]
    assert (ours - attention(q, *whole, scale=1.0)).abs().max().item() <= 1e-5


@settings(deadline=None)
@given(
    windows=st.lists(st.integers(1, 5), min_size=1, max_size=3),
    group=st.sampled_from([1, 5, 10]),
    queries=st.integers(1, 3),
    unlike=st.dictionaries(st.integers(0, 5), st.integers(0, 9)),
)
def test_cross_attention_counts_a_group_as_often_as_there_are_positions_in_it(
    windows: list[int], group: int, queries: int, unlike: dict[int, int]
) -> None:
    """unlike: of each ten positions one that is not like the others; found, and kept as it is."""
    positions = 60
    generator = torch.Generator().manual_seed(len(windows))

    def drawn(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator)

    whole = drawn(1, 2, HEADS, 1, DIM).repeat(1, 1, 1, positions, 1)
    for ten, place in unlike.items():
        whole[:, :, :, 10 * ten + place] = 3 * drawn(1, 2, HEADS, DIM)
    nothing = torch.zeros(1, positions, HEADS, DIM)
    silence = EncodedSilence.of([(nothing, nothing)], [whole], group, alone=len(unlike))
    pooled, full = (CrossCache(len(windows), 1, HEADS, positions, DIM) for _ in range(2))
    slots = []
    for window in windows:
        n = window * group
        own = drawn(1, 2, HEADS, n, DIM)
        for cache, rest in ((pooled, silence.cross_rest(n)), (full, ([whole[:, :, :, n:]], None))):
            slot = cache.allocate()
            assert slot is not None
            cache.write([slot], [own], [n], *rest)
        slots.append(slot)
    q, places = drawn(len(windows), queries, HEADS, DIM), torch.tensor(slots)
    ours = biased_cross_attention(
        q, pooled.data[0], places, pooled.lengths[places], pooled.bias, scale=1.0
    )
    exact = cross_attention_cached(q, full.data[0], places, full.lengths[places], scale=1.0)
    assert (pooled.bias is None) == (group == 1)
    assert (ours - exact).abs().max().item() <= 1e-4  # of values up to 10
    assert ((pooled.lengths < full.lengths)[places] == (group > 1)).all()


def test_cross_attention_finds_the_silence_behind_the_window() -> None:
    generator = torch.Generator().manual_seed(0)
    cross = [torch.randn(1, 2, HEADS, 10, DIM, generator=generator)]
    silence = EncodedSilence.of([(draw(10, 1), draw(10, 2))], cross, 1)
    own = [torch.randn(3, 2, HEADS, 4, DIM, generator=generator)]
    (joined,) = silence.cross_behind(own)
    assert torch.equal(joined[:, :, :, :4], own[0])
    assert torch.equal(joined[:, :, :, 4:], cross[0][:, :, :, 4:].expand(3, -1, -1, -1, -1))
