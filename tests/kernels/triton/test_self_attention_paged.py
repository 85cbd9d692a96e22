"""A decode step's attention, from the projection on: Triton's one kernel against torch's three."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from lookhear.kernels.fp8 import FP8, LARGEST
from lookhear.kernels.rope import rope_angles, rope_frequencies
from lookhear.kernels.self_attention_paged import self_attention_paged
from lookhear.kernels.triton import self_attention_paged as module

NAN = float("nan")
EPS = 1e-6
# The interpreter cuts bfloat16 off where a GPU rounds, in queries and keys already.
TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 6e-2, torch.float16: 6e-3}
torch_version = self_attention_paged.__wrapped__  # type: ignore[attr-defined]


class Step(NamedTuple):
    """The arguments of both, in order."""

    qkv: Tensor
    weight: Tensor | None
    eps: float
    cos: Tensor
    sin: Tensor
    cache: Tensor
    slots: Tensor
    block_tables: Tensor
    past_lengths: Tensor
    query_lengths: Tensor


def draw(seed: int, *shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def step(
    past: list[int],
    heads: int = 4,
    kv_heads: int = 2,
    dim: int = 16,
    *,
    block: int = 4,
    dtype: torch.dtype = torch.float32,
) -> Step:
    """Rows with so many cached tokens each. All that is not a row's is NaN."""
    counts = [n // block + 1 for n in past]
    num_blocks = 2 + sum(counts)
    free = torch.randperm(num_blocks - 1, generator=torch.Generator().manual_seed(7)).add(1)
    ends = torch.tensor([0, *counts]).cumsum(0).tolist()
    tables = [free[a:b].tolist() for a, b in pairwise(ends)]
    cache = torch.full((2, num_blocks, block, kv_heads, dim), NAN)
    slots = []
    for number, (table, length) in enumerate(zip(tables, past, strict=True)):
        places = [table[i // block] * block + i % block for i in range(length + 1)]
        cache.flatten(1, 2)[:, places[:-1]] = draw(number, 2, length, kv_heads, dim)
        slots.append(places[-1])
    width = max(counts) + 1
    tables = [t + [num_blocks - 1] * (width - len(t)) for t in tables]
    positions = torch.tensor(past)
    cos, sin = rope_angles(positions, rope_frequencies(dim, 1e4), dtype)
    return Step(
        draw(99, len(past), heads + 2 * kv_heads, dim).to(dtype),
        (1.0 + 0.1 * draw(98, heads + kv_heads, dim)).to(dtype),
        EPS,
        cos,
        sin,
        cache.to(dtype),
        torch.tensor(slots),
        torch.tensor(tables),
        positions,
        torch.ones(len(past), dtype=torch.int64),
    )


def check(arguments: Step) -> Tensor:
    """The outputs agree, and so do the caches, NaN included."""
    theirs = torch_version(*arguments._replace(cache=arguments.cache.clone()))
    expected = arguments.cache.clone()
    torch_version(*arguments._replace(cache=expected))
    ours = module.self_attention_paged(*arguments, is_decode=True)
    assert ours.dtype == theirs.dtype and not theirs.isnan().any()
    tolerance = TOLERANCE[theirs.dtype]
    torch.testing.assert_close(ours, theirs, atol=tolerance, rtol=tolerance)
    torch.testing.assert_close(
        arguments.cache, expected, atol=tolerance, rtol=tolerance, equal_nan=True
    )
    return ours


@pytest.mark.parametrize("dtype", list(TOLERANCE))
@pytest.mark.parametrize(
    ("heads", "kv_heads", "dim"), [(1, 1, 64), (4, 2, 80), (6, 2, 6), (7, 1, 128), (32, 2, 2)]
)
def test_rows_of_any_length(heads: int, kv_heads: int, dim: int, dtype: torch.dtype) -> None:
    check(step([0, 17, 122, 3], heads, kv_heads, dim, dtype=dtype))


@pytest.mark.parametrize(("heads", "kv_heads", "dim"), [(4, 2, 80), (9, 3, 64)])
def test_without_norms(heads: int, kv_heads: int, dim: int) -> None:
    arguments = step([0, 17, 122], heads, kv_heads, dim)._replace(weight=None)
    plain = check(arguments)
    assert not torch.allclose(plain, check(step([0, 17, 122], heads, kv_heads, dim)))


@pytest.mark.parametrize("splits", [2, 8])
@pytest.mark.parametrize("past", [[1023, 3], [0, 200], [129]])
def test_parts_of_the_keys_are_joined(
    past: list[int], splits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "num_splits", lambda programs, max_keys, split_keys: splits)
    check(step(past, 2, 1, block=16))


def test_long_rows_are_split_unasked() -> None:
    check(step([1030], 2, 1, block=16))


def test_two_tables_may_share_blocks() -> None:
    arguments = step([9, 9])
    arguments.block_tables[1, :2] = arguments.block_tables[0, :2]
    check(arguments)


def test_slots_outside_of_the_cache_are_not_written() -> None:
    arguments = step([9, 6])
    arguments.slots[0], arguments.slots[1] = -1, arguments.cache[0].shape[0] * 4
    before = arguments.cache.clone()
    ours = module.self_attention_paged(*arguments, is_decode=True)
    assert torch.equal(arguments.cache.nan_to_num(9e9), before.nan_to_num(9e9))
    assert not ours.isnan().any()


def test_one_broken_row_breaks_no_other() -> None:
    arguments = step([9, 30, 5])
    before = module.self_attention_paged(*arguments, is_decode=True)
    arguments.qkv[1] = NAN
    after = module.self_attention_paged(*arguments, is_decode=True)
    assert torch.equal(after[[0, 2]], before[[0, 2]]) and after[1].isnan().all()


def test_what_is_no_decode_step_goes_the_long_way() -> None:
    arguments = step([9, 30])
    expected = check(arguments)
    again = module.self_attention_paged(*arguments, is_decode=False)
    torch.testing.assert_close(again, expected, atol=1e-5, rtol=1e-5)


def test_another_dtype_in_the_cache() -> None:
    arguments = step([9, 30])
    expected = torch_version(*arguments._replace(cache=arguments.cache.clone()))
    ours = module.self_attention_paged(
        *arguments._replace(cache=arguments.cache.half()), is_decode=True
    )
    assert ours.dtype == torch.float32
    torch.testing.assert_close(ours, expected, atol=6e-3, rtol=6e-3)


@pytest.mark.parametrize("dtype", list(TOLERANCE))
@pytest.mark.parametrize("splits", [1, 4])
def test_keys_and_values_in_float8(
    splits: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "num_splits", lambda *_: splits)
    arguments = step([0, 17, 90], dtype=dtype)
    arguments.qkv[1, -1] *= 1000.0  # values beyond what there is
    ours, theirs = (arguments._replace(cache=arguments.cache.float().to(FP8)) for _ in range(2))
    y = module.self_attention_paged(*ours, is_decode=True)
    expected = torch_version(*theirs)
    scale = expected.abs().amax(dim=(1, 2), keepdim=True).clamp(min=1.0)
    # A key between two steps may be taken for either, and weighs in its own score.
    torch.testing.assert_close(y / scale, expected / scale, atol=0.03, rtol=0.05)
    one, other = ours.cache.float(), theirs.cache.float()
    torch.testing.assert_close(one, other, atol=2**-9, rtol=0.14, equal_nan=True)
    assert float(one.nan_to_num().abs().max()) == LARGEST


@pytest.mark.parametrize("dtype", list(TOLERANCE))
def test_a_prompts_keys_and_values_in_float8(dtype: torch.dtype) -> None:
    """Written by one kernel, read by another."""
    arguments = step([5, 9, 30], dtype=dtype)
    ours, theirs = (arguments._replace(cache=arguments.cache.float().to(FP8)) for _ in range(2))
    y = module.self_attention_paged(*ours)
    expected = torch_version(*theirs)
    torch.testing.assert_close(y, expected, atol=0.05, rtol=0.05)
    one, other = ours.cache.float(), theirs.cache.float()
    torch.testing.assert_close(one, other, atol=2**-9, rtol=0.14, equal_nan=True)
