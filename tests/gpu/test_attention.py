"""Attention kernels against their twins in float32, at the sizes of real models."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.gpu.test_tokens import DTYPES, both, draw

pytestmark = pytest.mark.gpu

Sized = Callable[[int, int], int]
# Probabilities are rounded to the cache's dtype before they meet the values.
LIMITS = {torch.float32: 5e-5, torch.bfloat16: 3e-2, torch.float16: 4e-3}


def paged(
    device: torch.device,
    lengths: list[tuple[int, int]],
    heads: int,
    kv_heads: int,
    dim: int,
    dtype: torch.dtype,
    padding: int = 0,
) -> tuple[Tensor, ...]:
    """Arguments of paged attention; lengths: of each row, (past, new). What is nobody's is NaN."""
    counts = [-(-(past + new) // 16) for past, new in lengths]
    generator = torch.Generator().manual_seed(0)
    blocks = torch.randperm(sum(counts) + 1, generator=generator).add(1).tolist()
    cache = torch.full((2, len(blocks) + 1, 16, kv_heads, dim), torch.nan, dtype=dtype)
    places, tables = cache.flatten(1, 2), torch.zeros(len(lengths), max(counts) + 1).long()
    tables[:] = blocks[-1]
    for row, ((past, new), end) in enumerate(zip(lengths, accumulate(counts), strict=True)):
        mine = torch.tensor(blocks[end - counts[row] : end], dtype=torch.int64)
        tables[row, : counts[row]] = mine
        slots = (mine[:, None] * 16 + torch.arange(16)).flatten()[: past + new]
        held = torch.randn(2, past + new, kv_heads, dim, generator=generator)
        places[:, slots] = held.to(dtype)
    real = sum(new for _, new in lengths)
    q = draw(torch.device("cpu"), 1, real + padding, heads, dim).to(dtype)
    q[real:] = torch.nan
    pasts, news = (torch.tensor(column) for column in zip(*lengths, strict=True))
    return tuple(x.to(device) for x in (q, cache, tables, pasts, news))


def check_paged(errors: Any, arguments: tuple[Tensor, ...]) -> None:
    ours, theirs = both("paged_attention")
    q, cache, *rest = arguments
    exact = theirs(q.float().nan_to_num(), cache.float(), *rest)
    errors.close(ours(*arguments), exact, LIMITS[q.dtype])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("heads", "kv_heads", "dim"), [(16, 8, 128), (14, 2, 64), (7, 1, 80), (32, 8, 128)]
)
def test_a_decode_step_from_the_projection_on(
    heads: int,
    kv_heads: int,
    dim: int,
    dtype: torch.dtype,
    device: torch.device,
    sized: Sized,
    errors: Any,
) -> None:
    for past in ([0], [sized(3000, 130)], [sized(400, 20), 0, 17] * sized(20, 1)):
        _, cache, tables, pasts, news = paged(
            device, [(n, 1) for n in past], heads, kv_heads, dim, dtype
        )
        qkv = draw(device, 2, len(past), heads + 2 * kv_heads, dim).to(dtype)
        weight = draw(device, 3, heads + kv_heads, dim).to(dtype)
        cos, sin = (draw(device, seed, len(past), 1, dim).to(dtype) for seed in (4, 5))
        rows = torch.arange(len(past), device=device)
        slots = tables[rows, pasts // 16] * 16 + pasts % 16
        wide = cache.float()
        ours, theirs = both("self_attention_paged")
        single = (x.float() for x in (qkv, weight))
        exact = theirs(*single, 1e-6, cos.float(), sin.float(), wide, slots, tables, pasts, news)
        y = ours(qkv, weight, 1e-6, cos, sin, cache, slots, tables, pasts, news, is_decode=True)
        limit = {torch.float32: 1e-4, torch.bfloat16: 1e-1, torch.float16: 1e-2}[dtype]
        errors.close(y, exact, limit)
        written = wide.isfinite()
        assert torch.equal(cache.isfinite(), written)
        errors.close(cache[written], wide[written], limit)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("heads", "kv_heads", "dim"), [(16, 8, 128), (14, 2, 64), (7, 1, 80), (16, 16, 64)]
)
def test_decoding(
    heads: int,
    kv_heads: int,
    dim: int,
    dtype: torch.dtype,
    device: torch.device,
    sized: Sized,
    errors: Any,
) -> None:
    long = sized(4095, 130)
    generator = torch.Generator().manual_seed(1)
    many = torch.randint(long, (sized(32, 3),), generator=generator).tolist()
    for pasts in ([long], [0, 5, 122, 1023 % long], many):
        lengths = [(past, 1) for past in pasts]
        check_paged(errors, paged(device, lengths, heads, kv_heads, dim, dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dim", [64, 80, 128])
def test_prefill(
    dim: int, dtype: torch.dtype, device: torch.device, sized: Sized, errors: Any
) -> None:
    long = sized(1023, 70)
    lengths = [(0, 5), (sized(700, 30), 123), (0, 0), (3, long), (17, 1), (0, 0)]
    check_paged(errors, paged(device, lengths, 16, 8, dim, dtype, padding=9))
    check_paged(errors, paged(device, [(0, sized(2048, 40))], 16, 8, dim, dtype))


def test_two_tables_may_share_blocks(device: torch.device, errors: Any) -> None:
    q, cache, tables, pasts, news = paged(device, [(100, 1), (100, 1)], 16, 8, 64, torch.float32)
    tables[1, :5] = tables[0, :5]
    check_paged(errors, (q, cache, tables, pasts, news))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dim", [64, 80, 128])
def test_encoders(
    dim: int, dtype: torch.dtype, device: torch.device, sized: Sized, errors: Any
) -> None:
    """Whole windows in a batch, with lengths, and packed windows with padding behind them."""
    batch, positions, heads = sized(4, 1), sized(1500, 90), sized(20, 2)
    qkv = draw(device, 0, batch, positions, 3 * heads, dim).to(dtype)
    q, k, v = qkv.chunk(3, dim=2)
    ours, theirs = both("attention")
    exact = [x.float() for x in (q, k, v)]
    errors.close(ours(q, k, v), theirs(*exact), LIMITS[dtype])
    lengths = torch.tensor([positions - 7, 1, 123, 1023][:batch], device=device)
    for b, length in enumerate(lengths.tolist()):
        qkv[b, length:, heads:] = torch.nan
    short = theirs(*(x.float() for x in (q, k, v)), key_lengths=lengths)
    errors.close(ours(q, k, v, key_lengths=lengths), short, LIMITS[dtype])

    bounds = [0, 5, 5, 109, 109 + sized(1023, 30)]
    packed = draw(device, 2, bounds[-1] + 20, 3 * heads, dim).to(dtype)
    packed[bounds[-1] :] = torch.nan
    limits = torch.tensor(bounds, device=device)
    q, k, v = packed.chunk(3, dim=1)
    ours, theirs = both("windowed_attention")
    result = ours(q, k, v, limits)
    errors.close(result, theirs(q.float(), k.float(), v.float(), limits), LIMITS[dtype])
    assert not result[bounds[-1] :].any()


@pytest.mark.parametrize("dtype", DTYPES)
def test_over_slots(dtype: torch.dtype, device: torch.device, sized: Sized, errors: Any) -> None:
    """A decoder's own rows and its audio; slots shared by rows, lengths of all kinds."""
    batch, heads, dim, positions = sized(64, 3), sized(20, 2), 64, sized(1500, 123)
    audio = torch.full((9, 2, heads, positions, dim), torch.nan, dtype=dtype, device=device)
    filled = [positions, 5, 123, min(1023, positions)]
    for slot, length in enumerate(filled):
        audio[slot, :, :, :length] = draw(device, slot, 2, heads, length, dim).to(dtype)
    slots = torch.arange(batch, device=device) % 4
    lengths = torch.tensor(filled, device=device)[slots]
    for queries in (1, 5):
        q = draw(device, 9, batch, queries, heads, dim).to(dtype)
        ours, theirs = both("cross_attention_cached")
        exact = theirs(q.float(), audio.float(), slots, lengths)
        errors.close(ours(q, audio, slots, lengths), exact, LIMITS[dtype])
        ours, theirs = both("cross_attention_weights")
        chosen = [1, 0]
        looks = ours(q, audio, slots, lengths, chosen, positions=positions)
        exact = theirs(q.float(), audio.float(), slots, lengths, chosen, positions=positions)
        errors.close(looks, exact, LIMITS[dtype])

        context = sized(448, 40)
        own = torch.full((2, batch + 1, heads, context, dim), torch.nan, device=device)
        pasts = torch.arange(batch) * 5 % (context - 8)
        for row, past in enumerate(pasts.tolist()):
            own[:, row + 1, :, :past] = draw(device, row, 2, heads, past, dim)
        own = own.to(dtype)
        exact_own = own.float()
        rows = torch.arange(1, batch + 1, device=device)
        news = torch.full((batch,), queries)
        news[-1] = 0 if queries > 1 else 1
        qkv = draw(device, 7, batch, queries, 3 * heads, dim).to(dtype)
        parts = qkv.chunk(3, dim=2)
        ours, theirs = both("self_attention_cached")
        counts = pasts.to(device), news.to(device)
        result = ours(*parts, own, rows, *counts)
        exact = theirs(*(x.float() for x in parts), exact_own, rows, *counts)
        errors.close(result, exact, LIMITS[dtype])
        assert torch.equal(own.nan_to_num(9.0).float(), exact_own.nan_to_num(9.0))
