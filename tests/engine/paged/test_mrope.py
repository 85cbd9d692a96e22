"""M-RoPE positions of prompts, in numpy; those of transformers are compared in the parity test."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookhear.engine.paged.mrope import Grid, PromptPositions


def test_the_example_of_the_module() -> None:
    positions = PromptPositions.of(10, [Grid(2, 2, 3)])
    assert positions.axes.tolist() == [
        [0, 1, 2, 2, 2, 2, 2, 2, 5, 6],
        [0, 1, 2, 2, 2, 3, 3, 3, 5, 6],
        [0, 1, 2, 3, 4, 2, 3, 4, 5, 6],
    ]
    assert positions.delta == -3
    assert positions.read(9, 12).tolist() == [[6, 7, 8]] * 3


def test_slices_of_a_video_that_stand_side_by_side_begin_together() -> None:
    positions = PromptPositions.of(7, [Grid(1, 1, 2), Grid(3, 1, 2, time=4)])
    assert positions.axes.tolist() == [
        [0, 1, 1, 5, 5, 6, 7],
        [0, 1, 1, 1, 1, 6, 7],
        [0, 1, 2, 1, 2, 6, 7],
    ]
    assert positions.delta == 1
    soon = PromptPositions.of(13, [Grid(1, 1, 5), Grid(6, 1, 5, time=1)])
    assert soon.axes[:, 11].tolist() == [6] * 3


def test_text_counts_up_alike_on_all_axes() -> None:
    positions = PromptPositions.of(4)
    assert positions.delta == 0
    assert positions.read(0, 6).tolist() == [list(range(6))] * 3
    assert positions.read(3, 3).shape == (3, 0)


@st.composite
def prompts(draw: st.DrawFn) -> tuple[int, list[Grid]]:
    grids, place = [], 0
    for _ in range(draw(st.integers(0, 4))):
        place += draw(st.integers(0, 5))
        grids.append(Grid(place, draw(st.integers(1, 7)), draw(st.integers(1, 7))))
        place += grids[-1].height * grids[-1].width
    return place + draw(st.integers(0, 5)), grids


@given(prompts(), st.integers(0, 300), st.integers(0, 20))
def test_what_comes_next_is_behind_all_that_was(
    prompt: tuple[int, list[Grid]], first: int, count: int
) -> None:
    num_tokens, grids = prompt
    positions = PromptPositions.of(num_tokens, grids)
    assert positions.axes.shape == (3, num_tokens) and positions.axes.dtype == np.int64
    assert positions.delta <= 0
    assert num_tokens + positions.delta == int(positions.axes.max(initial=-1)) + 1
    inside = {place for g in grids for place in range(g.start, g.start + g.height * g.width)}
    for place in set(range(num_tokens)) - inside:
        position = positions.axes[0, place]
        assert (positions.axes[:, place] == position).all()
        assert (positions.axes[:, :place] < position).all()
    # Chunks are slices of the whole, whatever their bounds.
    whole = positions.read(0, 350)
    assert (positions.read(first, first + count) == whole[:, first : first + count]).all()


@pytest.mark.parametrize(
    "grids",
    [
        [Grid(3, 2, 2), Grid(6, 1, 1)],
        [Grid(8, 2, 2)],
        [Grid(1, 1, 1, time=2)],
        [Grid(1, 1, 1), Grid(3, 1, 1, time=2)],
    ],
)
def test_grids_that_overlap_or_stick_out_are_our_bug(grids: list[Grid]) -> None:
    with pytest.raises(AssertionError):
        PromptPositions.of(10, grids)
