"""What of an answer is taken for heard."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from lookhear.engine.core.request import Result, StopReason
from lookhear.engine.speech.text.hypothesis import Hypothesis, is_loop

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
