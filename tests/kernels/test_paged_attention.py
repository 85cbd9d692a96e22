from __future__ import annotations

from random import Random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from lookhear.kernels import paged_attention, paged_write, spans
from lookhear.kernels.fp8 import FP8, LARGEST
from lookhear.kernels.paged_attention import QUERIES

NAN = float("nan")
BLOCK = 4


def draw(seed: int, *shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def naive(q: Tensor, k: Tensor, v: Tensor, past: int) -> Tensor:
    """q: [new, heads, dim]; k, v: [past + new, kv_heads, dim]; one query at a time."""
    out = torch.empty_like(q)
    group = q.shape[1] // k.shape[1]
    for i in range(q.shape[0]):
        for head in range(q.shape[1]):
            keys = k[: past + i + 1, head // group]
            weights = (keys @ q[i, head] * q.shape[2] ** -0.5).softmax(0)
            out[i, head] = weights @ v[: past + i + 1, head // group]
    return out


@settings(max_examples=40, deadline=None)
@given(
    lengths=st.lists(st.tuples(st.integers(0, 11), st.integers(0, 6)), min_size=1, max_size=4),
    heads=st.sampled_from([(2, 2), (4, 2), (3, 1)]),
    padding=st.integers(0, 5),
    in_order=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_equals_the_naive_one_and_reads_only_its_blocks(
    lengths: list[tuple[int, int]],
    heads: tuple[int, int],
    padding: int,
    in_order: bool,
    seed: int,
) -> None:
    (num_heads, kv_heads), dim, num_blocks = heads, 6, 24
    generator = torch.Generator().manual_seed(seed)
    free = torch.randperm(num_blocks - 1, generator=generator).add(1).tolist()
    if in_order:
        free.sort()
    cache = torch.full((2, num_blocks, BLOCK, kv_heads, dim), NAN)
    tables, slots, expected = [], [], []
    total_new = sum(new for _, new in lengths)
    q = draw(seed, total_new + padding, num_heads, dim)
    k, v = draw(seed + 1, len(q), kv_heads, dim), draw(seed + 2, len(q), kv_heads, dim)
    q[total_new:], k[total_new:], v[total_new:] = NAN, NAN, NAN
    start = 0
    for row, (past, new) in enumerate(lengths):
        table = [free.pop(0) for _ in range(-(-(past + new) // BLOCK))]
        places = [table[i // BLOCK] * BLOCK + i % BLOCK for i in range(past + new)]
        old = draw(seed + 10 + row, 2, past, kv_heads, dim)
        cache.flatten(1, 2)[:, places[:past]] = old
        mine = slice(start, start + new)
        expected.append(
            naive(q[mine], torch.cat([old[0], k[mine]]), torch.cat([old[1], v[mine]]), past)
        )
        tables.append(table)
        slots += places[past:]
        start += new
    before = cache.clone()
    paged_write(k, v, cache, torch.tensor(slots + [0] * padding, dtype=torch.int64))
    others = torch.ones(num_blocks * BLOCK, dtype=torch.bool)
    others[slots + [0]] = False
    torch.testing.assert_close(
        cache.flatten(1, 2)[:, others], before.flatten(1, 2)[:, others], equal_nan=True
    )
    width = max(map(len, tables))
    out = paged_attention(
        q,
        cache,
        torch.tensor([t + [0] * (width - len(t)) for t in tables], dtype=torch.int64),
        torch.tensor([past for past, _ in lengths]),
        torch.tensor([new for _, new in lengths]),
    )
    torch.testing.assert_close(out[:total_new], torch.cat(expected), atol=1e-5, rtol=1e-5)
    assert not out[total_new:].any()


def test_two_tables_may_share_blocks() -> None:
    cache = draw(0, 2, 6, BLOCK, 2, 4)
    q = draw(1, 2, 4, 4)
    tables = torch.tensor([[5, 2], [5, 3]])
    out = paged_attention(q, cache, tables, torch.tensor([5, 6]), torch.tensor([1, 1]))
    for row in range(2):
        alone = paged_attention(
            q[row : row + 1],
            cache,
            tables[row : row + 1],
            torch.tensor([5 + row]),
            torch.tensor([1]),
        )
        assert torch.equal(out[row : row + 1], alone)
    assert not torch.equal(out[0], out[1])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_dtypes_of_query_and_cache(dtype: torch.dtype) -> None:
    cache = draw(0, 2, 3, BLOCK, 1, 8)
    q = draw(1, 3, 2, 8)
    table, past, new = torch.tensor([[2, 1]]), torch.tensor([4]), torch.tensor([3])
    reference = paged_attention(q, cache, table, past, new)
    out = paged_attention(q.to(dtype), cache.to(torch.bfloat16), table, past, new)
    assert out.dtype == dtype
    torch.testing.assert_close(out.float(), reference, atol=3e-2, rtol=3e-2)


def test_a_table_too_short_for_its_row_is_our_bug() -> None:
    cache = torch.zeros(2, 4, BLOCK, 1, 4)
    with pytest.raises(AssertionError):
        paged_attention(
            draw(0, 1, 1, 4), cache, torch.tensor([[1]]), torch.tensor([4]), torch.tensor([1])
        )


def test_slot_minus_one_is_refused_not_wrapped() -> None:
    """Padding marked -1 has silently overwritten the last block in other engines."""
    cache = torch.zeros(2, 3, BLOCK, 1, 4)
    with pytest.raises((IndexError, RuntimeError)):
        paged_write(draw(0, 1, 1, 4), draw(1, 1, 1, 4), cache, torch.tensor([-1]))
    assert not cache.any()


@pytest.mark.parametrize("past", [0, 3])
def test_long_prompts_are_read_in_pieces(past: int) -> None:
    new = 2 * QUERIES + 5
    q = draw(0, new, 4, 6)
    k, v = (draw(seed, past + new, 2, 6) for seed in (1, 2))
    blocks = -(-(past + new) // BLOCK)
    cache = torch.full((2, 1 + blocks, BLOCK, 2, 6), NAN)
    slots = torch.arange(BLOCK, BLOCK + past + new)
    paged_write(k, v, cache, slots)
    table = torch.arange(1, 1 + blocks)[None]
    out = paged_attention(q, cache, table, torch.tensor([past]), torch.tensor([new]))
    torch.testing.assert_close(out, naive(q, k, v, past), atol=1e-5, rtol=1e-5)


@settings(max_examples=50, deadline=None)
@given(
    lengths=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 5)), min_size=1, max_size=4),
    order=st.randoms(use_true_random=False),
)
def test_what_the_host_knows_of_the_rows_changes_nothing(
    lengths: list[tuple[int, int]], order: Random
) -> None:
    free = list(range(1, 20))
    if order.random() < 0.5:  # else all blocks are neighbours
        order.shuffle(free)
    tables = [
        [free.pop(0) for _ in range(-(-(past + new) // BLOCK))] + [0] * 8 for past, new in lengths
    ]
    rows = torch.tensor([table[:8] for table in tables])
    past, new = (torch.tensor(column) for column in zip(*lengths, strict=True))
    cache, q = draw(0, 2, 20, BLOCK, 2, 4), draw(1, sum(n for _, n in lengths) + 1, 4, 4)
    known = spans(rows, past, new, BLOCK)
    assert [(span.past, span.new) for span in known] == lengths
    for span, table in zip(known, tables, strict=True):
        assert span.blocks == table[: -(-(span.past + span.new) // BLOCK)]
        if span.first >= 0:
            assert span.blocks == [span.first // BLOCK + i for i in range(len(span.blocks))]
    scattered = [span._replace(first=-1) for span in known]
    expected = paged_attention(q, cache, rows, past, new, known=scattered)
    for given_rows in (known, None):
        torch.testing.assert_close(
            paged_attention(q, cache, rows, past, new, known=given_rows), expected
        )


@pytest.mark.parametrize("window", [1, 3, QUERIES, 500])
@pytest.mark.parametrize("new", [1, 7, QUERIES + 9])
def test_a_window_is_attention_over_the_last_tokens_alone(window: int, new: int) -> None:
    """And where the blocks behind it are gone, a table that begins later says the same."""
    past = 60
    q = draw(0, new, 4, 6)
    k, v = (draw(seed, past + new, 2, 6) for seed in (1, 2))
    blocks = -(-(past + new) // BLOCK)
    cache = torch.full((2, 1 + blocks, BLOCK, 2, 6), NAN)
    paged_write(k, v, cache, torch.arange(BLOCK, BLOCK + past + new))
    table = torch.arange(1, 1 + blocks)[None]
    out = paged_attention(q, cache, table, torch.tensor([past]), torch.tensor([new]), window=window)
    for index in range(new):
        end = past + index + 1
        first = max(0, end - window)
        alone = naive(q[index : index + 1], k[first:end], v[first:end], end - first - 1)
        torch.testing.assert_close(out[index : index + 1], alone, atol=1e-5, rtol=1e-5)
    gone = max(0, past + 1 - window) // BLOCK
    cache[:, 1 : 1 + gone] = NAN
    lengths = torch.tensor([past - gone * BLOCK]), torch.tensor([new])
    later = paged_attention(q, cache, table[:, gone:], *lengths, window=window)
    torch.testing.assert_close(later, out)


def test_keys_and_values_in_float8_are_what_they_stand_for() -> None:
    """Written rounded, the largest number for those beyond it; read as if they were float32."""
    k, v = draw(0, 6, 2, 8), draw(1, 6, 2, 8)
    k[2, 1, 3], v[4, 0, 1], v[5, 0, 0] = 1e6, -1e6, NAN
    slots = torch.tensor([4, 5, 6, 7, 8, 9])
    cache = torch.zeros(2, 4, BLOCK, 2, 8).to(FP8)
    paged_write(k, v, cache, slots)
    wide = cache.float()
    places = wide.flatten(1, 2)
    assert places[0, 6, 1, 3] == LARGEST and places[1, 8, 0, 1] == -LARGEST
    assert places[1, 9, 0, 0].isnan() and (places[:, :4] == 0.0).all()
    torch.testing.assert_close(places[0, 4:6], k[:2], rtol=1 / 16, atol=2**-10)
    table, lengths = torch.tensor([[1, 2]]), (torch.tensor([2]), torch.tensor([3]))
    q = draw(2, 3, 4, 8)
    ours = paged_attention(q, cache, table, *lengths)
    assert torch.equal(ours, paged_attention(q, wide, table, *lengths))
    assert paged_attention(q.bfloat16(), cache, table, *lengths).dtype == torch.bfloat16
