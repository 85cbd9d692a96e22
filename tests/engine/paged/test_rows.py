"""Rows: one gather gives what building the batch token by token gives, wherever requests stand."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lookhear.engine.paged.blocks import BLOCK_TOKENS
from lookhear.engine.paged.cache import PagedBatch
from lookhear.engine.paged.rows import Gathered, Rows
from tests.engine.batches import paged_batch


def assert_same(ours: Gathered, plain: PagedBatch) -> None:
    for name in ("positions", "slots", "past_lengths", "query_lengths"):
        mine, expected = torch.from_numpy(getattr(ours, name)), getattr(plain, name)
        assert mine.dtype == expected.dtype and torch.equal(mine, expected), name
    assert ours.block_tables is not None
    # The gather leaves out columns that nobody reads in this step.
    width = ours.block_tables.shape[1]
    assert ours.block_tables.tolist() == plain.block_tables[:, :width].tolist()
    assert not ours.block_tables.shape[1] or int((ours.past_lengths + ours.query_lengths).max()) > (
        (width - 1) * BLOCK_TOKENS
    )


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_gather_equals_the_plain_batch(data: st.DataObject) -> None:
    rows = Rows(6, max_blocks=5)
    tables: dict[int, list[int]] = {}
    for _ in range(data.draw(st.integers(1, 12))):  # come and go in any order
        if tables and (rows.num_free == 0 or data.draw(st.booleans())):
            row = data.draw(st.sampled_from(sorted(tables)))
            rows.free(row)
            del tables[row]
        else:
            row = rows.allocate()
            assert row not in tables, "a row of two requests"
            tables[row] = data.draw(st.lists(st.integers(1, 99), min_size=1, max_size=5))
            rows.write(row, tables[row])
        rows.check()
    if not tables:
        return
    which = data.draw(st.permutations(sorted(tables)))
    which = which[: data.draw(st.integers(1, len(which)))]
    past, counts = [], []
    for row in which:
        room = len(tables[row]) * BLOCK_TOKENS
        past.append(data.draw(st.integers(0, room - 1)))
        counts.append(data.draw(st.integers(1, room - past[-1])))
    plain = paged_batch([tables[row] for row in which], past, counts)
    assert_same(rows.gather(which, past, counts), plain)


def test_a_row_keeps_nothing_of_who_had_it_before() -> None:
    rows = Rows(1, max_blocks=3)
    row = rows.allocate()
    rows.write(row, [7, 8, 9])
    rows.free(row)
    assert rows.allocate() == row
    rows.write(row, [5])
    tables = rows.gather([row], [0], [3]).block_tables
    assert tables is not None and tables.tolist() == [[5]]
    with pytest.raises(AssertionError, match="no block of its own"):
        rows.gather([row], [15], [2])  # 8 was the other's


def test_misuse_is_our_bug() -> None:
    rows = Rows(1, max_blocks=2)
    row = rows.allocate()
    with pytest.raises(AssertionError, match="more requests than there are rows"):
        rows.allocate()
    rows.free(row)
    with pytest.raises(AssertionError, match="not allocated"):
        rows.free(row)


def test_padding_goes_to_the_trash_block_and_changes_nothing_else() -> None:
    rows = Rows(3, 4)
    row = rows.allocate()
    rows.write(row, [3, 1])
    plain = rows.gather([row], [14], [5])
    padded = rows.gather([row], [14], [5], num_tokens=8)
    assert padded.slots.tolist() == [*plain.slots.tolist(), 0, 1, 2]
    assert padded.positions.tolist() == [*plain.positions.tolist(), 0, 0, 0]
    for name in ("block_tables", "past_lengths", "query_lengths"):
        assert getattr(plain, name).tolist() == getattr(padded, name).tolist()


def test_rows_of_padding_are_nobodys() -> None:
    rows = Rows(3, 4)
    row = rows.allocate()
    rows.write(row, [3, 1])
    decode = rows.gather([row], [14], [1], num_tokens=3, num_rows=3, is_uniform=True)
    assert decode.rows.tolist() == [row, 3, 3] and decode.block_tables is None
    assert (decode.past_lengths.tolist(), decode.query_lengths.tolist()) == ([14, 0, 0], [1, 1, 1])
    assert decode.slots.tolist() == [3 * BLOCK_TOKENS + 14, 0, 1]
    prefill = rows.gather([row], [14], [4], num_tokens=8, num_rows=2)
    assert prefill.query_lengths.tolist() == [4, 0]
    nobody = rows.gather([], [], [], num_tokens=2, num_rows=2, is_uniform=True)
    assert nobody.slots.tolist() == [0, 1] and nobody.rows.tolist() == [3, 3]


@given(st.lists(st.tuples(st.integers(0, 3), st.lists(st.integers(1, 9), max_size=4)), max_size=30))
def test_a_copy_that_takes_all_changes_has_the_tables(writes: list[tuple[int, list[int]]]) -> None:
    rows, copy = Rows(4, max_blocks=4), np.full((4, 4), -1)
    held = [rows.allocate() for _ in range(4)]
    known: dict[int, list[int]] = {}
    for place, (row, blocks) in enumerate(writes):
        rows.write(held[row], blocks)
        known[held[row]] = blocks + [0] * (4 - len(blocks))
        if place % 3 == 0:
            assert (changes := rows.changes()) is not None
            copy[changes[0]] = changes[1]
            assert {row: copy[row].tolist() for row in known} == known
            assert rows.changes() is None
