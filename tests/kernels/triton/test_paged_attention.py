"""Triton's paged attention against torch's: any rows, tables and lengths, and what is not read."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from torch import Tensor

from lookhear.kernels import paged_attention
from lookhear.kernels.fp8 import FP8
from lookhear.kernels.triton import paged_attention as module
from lookhear.kernels.triton.paged_attention import paged_attention as triton_attention
from lookhear.kernels.triton.softmax import num_splits

NAN = float("nan")
# The interpreter cuts bfloat16 off where a GPU rounds.
TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 4e-2, torch.float16: 4e-3}


def draw(seed: int, *shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def step(
    lengths: list[tuple[int, int]],
    heads: tuple[int, int],
    dim: int,
    *,
    block: int = 4,
    padding: int = 0,
    dtype: torch.dtype = torch.float32,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Arguments of a step; lengths: of each row, (past, new). All that is not a row's is NaN."""
    num_heads, kv_heads = heads
    counts = [-(-(past + new) // block) for past, new in lengths]
    num_blocks = 2 + sum(counts)
    free = torch.randperm(num_blocks - 1, generator=torch.Generator().manual_seed(7)).add(1)
    ends = torch.tensor([0, *counts]).cumsum(0).tolist()
    tables = [free[a:b].tolist() for a, b in pairwise(ends)]
    cache = torch.full((2, num_blocks, block, kv_heads, dim), NAN)
    places = cache.flatten(1, 2)
    for number, (table, (past, new)) in enumerate(zip(tables, lengths, strict=True)):
        slots = [table[i // block] * block + i % block for i in range(past + new)]
        places[:, slots] = draw(number, 2, past + new, kv_heads, dim)
    real = sum(new for _, new in lengths)
    q = draw(99, real + padding, num_heads, dim)
    q[real:] = NAN
    width = max(counts) + 1
    tables = [t + [num_blocks - 1] * (width - len(t)) for t in tables]
    pasts = torch.tensor([past for past, _ in lengths])
    news = torch.tensor([new for _, new in lengths])
    return q.to(dtype), cache.to(dtype), torch.tensor(tables), pasts, news


def check(arguments: tuple[Tensor, Tensor, Tensor, Tensor, Tensor]) -> None:
    ours, theirs = triton_attention(*arguments), paged_attention(*arguments)
    assert ours.dtype == theirs.dtype and not theirs.isnan().any()
    tolerance = TOLERANCE[theirs.dtype]
    torch.testing.assert_close(ours, theirs, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("dtype", list(TOLERANCE))
@pytest.mark.parametrize(
    ("heads", "dim"), [((1, 1), 64), ((4, 2), 80), ((6, 2), 6), ((7, 1), 128), ((16, 1), 16)]
)
def test_decoding(heads: tuple[int, int], dim: int, dtype: torch.dtype) -> None:
    check(step([(0, 1), (17, 1), (122, 1)], heads, dim, dtype=dtype))


@pytest.mark.parametrize("dtype", list(TOLERANCE))
@pytest.mark.parametrize(
    "lengths",
    [
        [(0, 5)],
        [(123, 5), (0, 70), (3, 1)],
        [(0, 0), (7, 9), (0, 0), (64, 64), (0, 0)],
    ],
)
def test_prefill_behind_a_cached_prefix(lengths: list[tuple[int, int]], dtype: torch.dtype) -> None:
    check(step(lengths, (4, 2), 16, dtype=dtype))


@pytest.mark.parametrize("padding", [1, 150])
@pytest.mark.parametrize("lengths", [[(9, 1)], [(9, 1), (0, 0), (0, 3)], [(0, 0)]])
def test_padding_is_zero_and_reaches_nobody(lengths: list[tuple[int, int]], padding: int) -> None:
    check(step(lengths, (4, 2), 8, padding=padding))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize(
    ("lengths", "splits"),
    [([(1022, 1), (3, 1)], 4), ([(100, 1), (0, 0), (61, 2)], 2), ([(90, 20)], 8), ([(300, 70)], 2)],
)
def test_parts_of_the_keys_are_joined(
    lengths: list[tuple[int, int]],
    splits: int,
    dtype: torch.dtype,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "num_splits", lambda programs, max_keys: splits)
    check(step(lengths, (2, 1), 16, padding=3, block=16, dtype=dtype))


def test_splits_only_what_is_long_and_would_leave_the_card_idle() -> None:
    assert num_splits(8, 40_960) == 16
    assert num_splits(8, 1024) == 4
    assert num_splits(8, 200) == 1
    assert num_splits(100, 40_960) == 2
    assert num_splits(512, 40_960) == 1


def test_two_tables_may_share_blocks() -> None:
    cache, q = draw(0, 2, 6, 4, 2, 8), draw(1, 2, 4, 8)
    tables = torch.tensor([[5, 2], [5, 3]])
    check((q, cache, tables, torch.tensor([5, 6]), torch.tensor([1, 1])))


def test_queries_where_the_fused_projection_left_them_and_another_dtype() -> None:
    q, cache, *rest = step([(9, 2), (0, 3)], (4, 2), 16)
    fused = torch.full((len(q), 8, 16), NAN)
    fused[:, :4] = q
    expected = paged_attention(q, cache, *rest)
    assert torch.equal(
        triton_attention(fused[:, :4], cache, *rest), triton_attention(q, cache, *rest)
    )
    ours = triton_attention(q, cache.half(), *rest)
    assert ours.dtype == torch.float32
    torch.testing.assert_close(ours, expected, atol=4e-3, rtol=4e-3)


def test_a_scale_of_ones_own() -> None:
    arguments = step([(9, 2)], (2, 1), 8)
    torch.testing.assert_close(
        triton_attention(*arguments, scale=1.0), paged_attention(*arguments, scale=1.0)
    )


@pytest.mark.parametrize(("window", "splits"), [(1, 1), (5, 4), (16, 1), (1000, 4)])
def test_a_window_of_the_last_tokens(
    window: int, splits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "num_splits", lambda programs, max_keys: splits)
    for lengths in ([(0, 1), (17, 1), (122, 1)], [(123, 5), (0, 70), (3, 1), (0, 0)]):
        arguments = step(lengths, (4, 2), 16, padding=2)
        torch.testing.assert_close(
            triton_attention(*arguments, window=window), paged_attention(*arguments, window=window)
        )


@pytest.mark.parametrize("dtype", list(TOLERANCE))
@pytest.mark.parametrize("window", [None, 20])
@pytest.mark.parametrize(
    "lengths", [[(0, 1), (17, 1), (122, 1)], [(123, 5), (0, 70), (3, 1)], [(9, 1), (0, 0), (0, 3)]]
)
def test_keys_and_values_in_float8(
    lengths: list[tuple[int, int]], window: int | None, dtype: torch.dtype
) -> None:
    """Multiplied in the queries' dtype; as if the cache held the rounded numbers in that."""
    q, cache, *rest = step(lengths, (4, 2), 16, dtype=torch.float32, padding=2)
    rounded = cache.to(FP8)
    ours = triton_attention(q.to(dtype), rounded, *rest, window=window)
    theirs = paged_attention(q.to(dtype), rounded, *rest, window=window)
    known = paged_attention(q.to(dtype), rounded.to(dtype), *rest, window=window)
    tolerance = TOLERANCE[dtype]
    assert ours.dtype == theirs.dtype == dtype and torch.equal(theirs, known)
    torch.testing.assert_close(ours, theirs, atol=tolerance, rtol=tolerance)


def test_parts_of_keys_in_float8_are_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "num_splits", lambda programs, max_keys: 4)
    q, cache, *rest = step([(300, 1), (3, 1)], (2, 1), 16, block=16)
    tables, pasts, news = rest
    check((q, cache.to(FP8), tables, pasts, news))
