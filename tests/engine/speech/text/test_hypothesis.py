"""What of an answer is taken for heard."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookhear.engine.core.request import Result, StopReason
from lookhear.engine.speech.text.hypothesis import Hypothesis, is_loop, way_out

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
