from __future__ import annotations

import importlib

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from lookhear.kernels import (
    attention,
    biased_attention,
    cross_attention_cached,
    cross_attention_weights,
    self_attention_cached,
    windowed_attention,
)

NAN = float("nan")


def naive(q: Tensor, k: Tensor, v: Tensor, visible: Tensor | None = None) -> Tensor:
    """[queries, heads, dim] each; visible: bool [queries, keys]."""
    scores = torch.einsum("qhd,khd->hqk", q, k) * q.shape[-1] ** -0.5
    if visible is not None:
        scores = scores.masked_fill(~visible, -torch.inf)
    return torch.einsum("hqk,khd->qhd", scores.softmax(-1), v)


def draw(seed: int, *shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("shape", [(1, 1, 1, 4), (2, 7, 3, 5), (3, 16, 2, 8)])
def test_attention_of_everything(shape: tuple[int, int, int, int]) -> None:
    q, k, v = draw(0, *shape), draw(1, *shape), draw(2, *shape)
    out = attention(q, k, v)
    for row in range(shape[0]):
        torch.testing.assert_close(out[row], naive(q[row], k[row], v[row]), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("queries", [64, 150])
def test_attention_in_bfloat16_and_in_pieces(queries: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # 2 heads * 150 keys: pieces of 70 queries, the last one shorter
    monkeypatch.setattr(importlib.import_module("lookhear.kernels.attention"), "SCORES", 70 * 300)
    q, k, v = (draw(i, 2, n, 2, 8).bfloat16() for i, n in enumerate((queries, 150, 150)))
    out = attention(q, k, v)
    assert out.dtype == torch.bfloat16 and out.shape == q.shape
    for row in range(2):
        expected = naive(q[row].float(), k[row].float(), v[row].float())
        torch.testing.assert_close(out[row].float(), expected, atol=0.02, rtol=0.02)


@pytest.mark.parametrize(("queries", "keys"), [(3, 7), (64, 128), (70, 150), (150, 1001)])
def test_a_bias_counts_keys_more_than_once(queries: int, keys: int) -> None:
    """In float32, and in bfloat16 whose pieces round the number of keys up."""
    q, k, v = (draw(i, 2, n, 2, 8) for i, n in enumerate((queries, keys, keys)))
    counts = torch.arange(keys) % 4 + 1
    exact = biased_attention(q, k, v, counts.log(), scale=8**-0.5)
    for row in range(2):
        often_k, often_v = (x[row].repeat_interleave(counts, 0) for x in (k, v))
        expected = naive(q[row], often_k, often_v)
        torch.testing.assert_close(exact[row], expected, atol=1e-5, rtol=1e-5)
    q, k, v = (x.bfloat16() for x in (q, k, v))
    half = biased_attention(q, k, v, counts.log(), scale=8**-0.5)
    assert half.dtype == torch.bfloat16
    torch.testing.assert_close(half.float(), exact, atol=0.03, rtol=0.03)


def test_attention_causal_with_lengths_ignores_what_does_not_exist() -> None:
    q, k, v = draw(0, 2, 3, 2, 4), draw(1, 2, 8, 2, 4), draw(2, 2, 8, 2, 4)
    lengths = torch.tensor([8, 5])
    k[1, 5:], v[1, 5:] = NAN, NAN
    out = attention(q, k, v, causal_offset=4, key_lengths=lengths)
    for row, length in enumerate(lengths.tolist()):
        visible = torch.arange(length)[None] <= 4 + torch.arange(3)[:, None]
        expected = naive(q[row], k[row, :length], v[row, :length], visible)
        torch.testing.assert_close(out[row], expected, atol=1e-5, rtol=1e-5)


@settings(max_examples=40, deadline=None)
@given(
    past=st.lists(st.integers(0, 9), min_size=1, max_size=5),
    new=st.lists(st.integers(0, 6), min_size=5, max_size=5),
    seed=st.integers(0, 1000),
)
def test_self_attention_equals_the_naive_one_and_writes_only_its_place(
    past: list[int], new: list[int], seed: int
) -> None:
    batch, heads, dim, context = len(past), 2, 4, 16
    new = new[:batch]
    queries = max(1, *new) if new else 1
    rows = (torch.randperm(7, generator=torch.Generator().manual_seed(seed)) + 1)[:batch]
    history = draw(seed, 2, 8, heads, context, dim)
    cache = torch.full_like(history, NAN)  # whatever is not a row's own past is poison
    for row, length in zip(rows.tolist(), past, strict=True):
        cache[:, row, :, :length] = history[:, row, :, :length]
    q, k, v = (draw(seed + i, batch, queries, heads, dim) for i in (1, 2, 3))
    for b, count in enumerate(new):
        for x in (q, k, v):
            x[b, count:] = NAN
    out = self_attention_cached(
        q, k, v, cache, rows, torch.tensor(past), torch.tensor(new)
    )  # fmt: skip
    written = torch.zeros_like(cache, dtype=torch.bool)
    for b, (row, length, count) in enumerate(zip(rows.tolist(), past, new, strict=True)):
        total = length + count
        keys = torch.cat([history[0, row, :, :length].transpose(0, 1), k[b, :count]])
        values = torch.cat([history[1, row, :, :length].transpose(0, 1), v[b, :count]])
        visible = torch.arange(total)[None] <= length + torch.arange(count)[:, None]
        if count:
            expected = naive(q[b, :count], keys, values, visible)
            torch.testing.assert_close(out[b, :count], expected, atol=1e-5, rtol=1e-5)
        assert (out[b, count:] == 0).all()
        written[:, row, :, :total] = True
        assert torch.equal(cache[0, row, :, :total].transpose(0, 1), keys)
        assert torch.equal(cache[1, row, :, :total].transpose(0, 1), values)
    assert cache[~written].isnan().all()


@pytest.mark.parametrize("queries", [1, 3])
def test_cross_attention_reads_its_slot_and_nothing_else(queries: int) -> None:
    audio = draw(0, 5, 2, 2, 9, 4)  # [slots, 2, heads, positions, dim]
    cache = torch.full_like(audio, NAN)
    slots, lengths = torch.tensor([4, 2, 2]), torch.tensor([9, 1, 6])
    cache[4], cache[2, :, :, :6] = audio[4], audio[2, :, :, :6]
    q = draw(1, 3, queries, 2, 4)
    out = cross_attention_cached(q, cache, slots, lengths)
    weights = cross_attention_weights(q, cache, slots, lengths, [1, 0, 1])
    assert weights.shape == (3, 3, queries, 9)
    for b, (slot, length) in enumerate(zip(slots.tolist(), lengths.tolist(), strict=True)):
        keys, values = (audio[slot, i, :, :length].transpose(0, 1) for i in (0, 1))
        torch.testing.assert_close(out[b], naive(q[b], keys, values), atol=1e-5, rtol=1e-5)
        looks = torch.einsum("hqk,khd->qhd", weights[b, [1, 0], :, :length], values)
        torch.testing.assert_close(looks, out[b], atol=1e-5, rtol=1e-5)
        assert (weights[b, :, :, length:] == 0).all()
        assert torch.equal(weights[b, 0], weights[b, 2])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("queries", [1, 2])
def test_a_cache_in_half_precision_rounds_what_it_holds_alone(
    dtype: torch.dtype, queries: int
) -> None:
    cache = draw(0, 2, 2, 2, 9, 4).to(dtype)
    q, k, v = (draw(i, 1, queries, 2, 4) for i in (1, 2, 3))
    arguments = torch.tensor([1]), torch.tensor([9])
    out = cross_attention_cached(q, cache, *arguments)
    assert out.dtype == torch.float32
    torch.testing.assert_close(out, cross_attention_cached(q, cache.float(), *arguments))

    own = draw(4, 2, 2, 2, 9, 4).to(dtype)
    whole = own.float()
    rest = torch.tensor([1]), torch.tensor([5]), torch.tensor([queries])
    out = self_attention_cached(q, k, v, own, *rest)
    k, v = (x.to(dtype).float() for x in (k, v))
    torch.testing.assert_close(out, self_attention_cached(q, k, v, whole, *rest))
    assert torch.equal(own.float(), whole)


def test_windows_see_themselves_and_padding_is_zero() -> None:
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(9, 2, 4, generator=generator) for _ in range(3))
    k[7:] = torch.nan
    out = windowed_attention(q, k, v, torch.tensor([0, 3, 3, 7]))
    for a, b in ((0, 3), (3, 7)):
        alone = attention(q[None, a:b], k[None, a:b], v[None, a:b])[0]
        assert torch.equal(out[a:b], alone)
    assert not out[7:].any()
    assert not windowed_attention(q, k, v, torch.tensor([0])).any()
