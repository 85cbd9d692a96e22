"""Triton's attention over batches, windows and slots against torch's."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from lookhear.kernels import (
    attention,
    cross_attention_cached,
    cross_attention_weights,
    self_attention_cached,
    windowed_attention,
)
from lookhear.kernels.triton import attention as module
from lookhear.kernels.triton import cached_attention as cached

NAN = float("nan")
# The interpreter cuts bfloat16 off where a GPU rounds.
TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 4e-2, torch.float16: 4e-3}
DTYPES = list(TOLERANCE)


def draw(seed: int, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def close(ours: Tensor, theirs: Tensor) -> None:
    assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
    assert not theirs.isnan().any()
    tolerance = TOLERANCE[theirs.dtype]
    torch.testing.assert_close(ours, theirs, atol=tolerance, rtol=tolerance)


@pytest.fixture(params=["one loop", "two loops"])
def loops(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles that all queries see all of: among the others, or without masks as for many keys."""
    if request.param == "two loops":
        monkeypatch.setattr(module, "WHOLE_KEYS", 1)


@pytest.mark.usefixtures("loops")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("queries", "keys", "heads", "dim"),
    [(5, 123, 2, 64), (123, 5, 1, 80), (1, 1023, 1, 16), (130, 130, 1, 6)],
)
def test_of_a_batch(queries: int, keys: int, heads: int, dim: int, dtype: torch.dtype) -> None:
    q, kv = draw(0, 2, queries, heads, dim), draw(1, 2, keys, 2 * heads, dim)
    k, v = kv.to(dtype).chunk(2, dim=2)
    close(module.attention(q.to(dtype), k, v), attention(q.to(dtype), k, v))


def test_of_nothing_is_nothing() -> None:
    q, k = draw(0, 2, 0, 1, 16), draw(1, 2, 5, 1, 16)
    assert module.attention(q, k, k).shape == q.shape
    assert module.windowed_attention(q[0], k[0, :0], k[0, :0], torch.tensor([0])).shape == (
        0,
        1,
        16,
    )


@pytest.mark.usefixtures("loops")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("offset", [None, 0, 40, 70])
def test_lengths_hide_what_does_not_exist(offset: int | None, dtype: torch.dtype) -> None:
    q, k, v = (draw(seed, 3, n, 2, 16, dtype=dtype) for seed, n in enumerate((20, 140, 140)))
    lengths = torch.tensor([140, 65, 1])
    k[1, 65:], v[1, 65:], k[2, 1:], v[2, 1:] = NAN, NAN, NAN, NAN
    ours = module.attention(q, k, v, causal_offset=offset, key_lengths=lengths, scale=0.3)
    close(ours, attention(q, k, v, causal_offset=offset, key_lengths=lengths, scale=0.3))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("bounds", [[0, 70], [0, 3, 3, 68, 75], [0, 0, 64]])
def test_of_windows(bounds: list[int], dtype: torch.dtype) -> None:
    qkv = draw(0, bounds[-1] + 9, 6, 20, dtype=dtype)
    qkv[bounds[-1] :] = NAN
    q, k, v = qkv.chunk(3, dim=1)
    limits = torch.tensor(bounds)
    ours, theirs = (f(q, k, v, limits) for f in (module.windowed_attention, windowed_attention))
    close(ours, theirs)
    assert not ours[bounds[-1] :].any()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("splits", [1, 4])
def test_over_slots(splits: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "num_splits", lambda programs, max_keys: splits)
    cache = draw(0, 5, 2, 2, 123, 16, dtype=dtype)
    slots, lengths = torch.tensor([4, 0, 4]), torch.tensor([123, 60, 7])
    cache[0, :, :, 60:], cache[1:4] = NAN, NAN
    q = draw(1, 3, 2, 2, 16, dtype=dtype)
    close(
        cached.cross_attention_cached(q, cache, slots, lengths),
        cross_attention_cached(q, cache, slots, lengths),
    )
    ours = cached.cross_attention_weights(q, cache, slots, lengths, [1, 0, 1])
    theirs = cross_attention_weights(q, cache, slots, lengths, [1, 0, 1])
    torch.testing.assert_close(ours, theirs, atol=2e-2 if dtype == torch.bfloat16 else 1e-3, rtol=0)
    # Without asking the device how long the longest is: a captured step cannot.
    wide, theirs = (
        f(q, cache, slots, lengths, [1], positions=150)
        for f in (cached.cross_attention_weights, cross_attention_weights)
    )
    assert wide.shape == theirs.shape == (3, 1, 2, 150)
    assert torch.equal(wide[..., :123], ours[:, :1])
    assert not wide[..., 123:].any()


@pytest.mark.usefixtures("loops")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("pasts", "news", "queries"),
    [
        ([0, 70, 5], [1, 1, 1], 1),
        ([9, 0, 70], [3, 0, 5], 5),
        ([3], [40], 40),
        ([0, 50], [20, 7], 20),
    ],
)
def test_of_a_decoder_over_its_own_cache(
    pasts: list[int], news: list[int], queries: int, dtype: torch.dtype
) -> None:
    heads, context, dim = 2, 80, 16
    rows = torch.tensor([4, 1, 2][: len(pasts)])
    theirs_cache = torch.full((2, 6, heads, context, dim), NAN, dtype=dtype)
    qkv = draw(0, len(pasts), queries, 3 * heads, dim, dtype=dtype)
    for b, (row, past, new) in enumerate(zip(rows.tolist(), pasts, news, strict=True)):
        theirs_cache[:, row, :, :past] = draw(b, 2, heads, past, dim, dtype=dtype)
        qkv[b, new:] = NAN
    ours_cache = theirs_cache.clone()
    q, k, v = qkv.chunk(3, dim=2)
    lengths = torch.tensor(pasts), torch.tensor(news)
    ours = cached.self_attention_cached(q, k, v, ours_cache, rows, *lengths)
    close(ours, self_attention_cached(q, k, v, theirs_cache, rows, *lengths))
    assert torch.equal(ours_cache.nan_to_num(9.0), theirs_cache.nan_to_num(9.0))


def test_what_has_no_place_in_the_context_is_not_written() -> None:
    cache, q = torch.zeros(2, 2, 1, 4, 16), draw(0, 1, 2, 1, 16)
    one = torch.tensor([1])
    cached.self_attention_cached(q, q, q, cache, one * 0, one * 3, one * 2)
    assert cache[:, 0, :, 3].any() and not cache[:, 1].any()
