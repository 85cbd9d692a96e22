"""What of an answer is taken for heard."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookhear.engine.core.request import Result, StopReason
from lookhear.engine.speech.text.hypothesis import Hypothesis, better, is_loop, parting, way_out

PHRASE = list(range(1, 13))


def heard(tokens: Sequence[int], stop: StopReason) -> Result:
    return Result("s/t", tuple(tokens), (-0.1,) * len(tokens), 0, stop)


@pytest.mark.parametrize(
    ("tokens", "stop", "kept"),
    [
        (PHRASE * 4, StopReason.REPETITION, 12),
        ([50, *PHRASE * 3, 1, 2], StopReason.LENGTH, 15),  # its audio had no room for a fourth
        (PHRASE, StopReason.LENGTH, 12),  # long words
        (PHRASE * 2, StopReason.END, 24),  # somebody says a sentence twice
        ([7] * 7, StopReason.LENGTH, 7),
    ],
)
def test_a_phrase_that_fills_its_audio_is_said_once(
    tokens: list[int], stop: StopReason, kept: int
) -> None:
    result = heard(tokens, stop)
    said = Hypothesis.of(result, 0, 0, is_bounded=True)
    assert said.tokens == tuple(tokens[:kept]) and len(said.logprobs) == kept
    assert is_loop(result) == (kept < len(tokens))


def test_what_goes_on_in_the_next_answer_may_be_anything() -> None:
    said = Hypothesis.of(heard(PHRASE * 2, StopReason.LENGTH), 0, 0)
    assert said.tokens == (*PHRASE, *PHRASE)


@given(
    before=st.lists(st.integers(0, 9), max_size=6),
    phrase=st.lists(st.integers(10, 14), min_size=1, max_size=8),
    times=st.integers(4, 9),
    rest=st.integers(0, 7),
    data=st.data(),
)
def test_a_loop_is_left_where_the_model_was_least_sure_of_going_on(
    before: list[int], phrase: list[int], times: int, rest: int, data: st.DataObject
) -> None:
    tokens = [*before, *phrase * times, *phrase[: rest % len(phrase)]]
    how_sure = st.floats(-5, 0, allow_subnormal=False)
    logprobs = data.draw(st.lists(how_sure, min_size=len(tokens), max_size=len(tokens)))
    result = replace(heard(tokens, StopReason.REPETITION), logprobs=tuple(logprobs))
    left = way_out(result)
    assert left is not None
    place, token = left
    assert len(before) < place < len(tokens) and tokens[place] == token
    again = len(before) + len(phrase)  # from here on all is said again
    assert logprobs[place] <= min(logprobs[again:])


@given(tokens=st.lists(st.integers(0, 3), max_size=30), stop=st.sampled_from(StopReason))
def test_what_is_no_loop_is_not_left(tokens: list[int], stop: StopReason) -> None:
    result = heard(tokens, stop)
    assert is_loop(result) or way_out(result) is None


SURE, UNSURE, MARK = -0.3, -0.9, 99


@given(
    same=st.lists(st.integers(0, 9), max_size=5),
    new=st.lists(st.integers(0, 9), min_size=1, max_size=5),
    old=st.lists(st.integers(10, 19), min_size=1, max_size=5),
    marks=st.sets(st.integers(0, 5), max_size=3),
)
def test_a_less_probable_text_parts_from_the_one_before_at_its_first_other_token(
    same: list[int], new: list[int], old: list[int], marks: set[int]
) -> None:
    tokens = [*same, *new]
    for place in sorted(marks):
        tokens.insert(place, MARK)
    before = Hypothesis((*same, *old), (SURE,) * (len(same) + len(old)))
    result = heard(tokens, StopReason.END)
    unsure = replace(result, logprobs=(UNSURE,) * len(tokens))
    place, token = parting(unsure, before, {MARK}) or (0, MARK)
    assert token == new[0] == tokens[place]
    assert [token for token in tokens[:place] if token != MARK] == same
    sure = replace(result, logprobs=(SURE,) * len(tokens))
    assert parting(sure, before, {MARK}) is None


@pytest.mark.parametrize(
    ("new", "before"),
    [
        ([1, 2, 3], [1, 2, 3]),
        ([1, 2], [1, 2, 3]),  # it ended earlier
        ([1, MARK, 2, 3], [1, 2, 3]),
        ([1, 2, 3], []),
        ([], [1, 2, 3]),
    ],
)
def test_what_has_no_other_token_parts_from_nothing(new: list[int], before: list[int]) -> None:
    result = replace(heard(new, StopReason.END), logprobs=(UNSURE,) * len(new))
    draft = Hypothesis(tuple(before), (SURE,) * len(before))
    assert parting(result, draft, {MARK}) is None


def test_of_two_texts_the_more_probable_one_is_better() -> None:
    first, second = heard([1, 2, 3], StopReason.END), heard([1, 4], StopReason.END)
    unsure = replace(second, logprobs=(UNSURE,) * 2)
    assert better(first, unsure) is first and better(unsure, first) is first
    assert better(first, heard([], StopReason.END)) is first


def test_what_leaves_a_loop_is_better_whatever_the_model_believes() -> None:
    loop = heard([3, *PHRASE * 4], StopReason.REPETITION)
    left = replace(heard([3, *PHRASE, 4], StopReason.END), logprobs=(UNSURE,) * 14)
    assert better(loop, left) is left
    assert better(loop, heard([3, *PHRASE * 5], StopReason.END)) is loop
    assert better(loop, heard([3, *PHRASE * 5, 50], StopReason.END)) is loop, "a sign behind it"
