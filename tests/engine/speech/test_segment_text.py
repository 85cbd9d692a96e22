"""What of a segment may stand in front of others."""

from __future__ import annotations

import math
from typing import cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookhear.engine.messages import SAMPLE_RATE
from lookhear.engine.speech.earlier import Earlier, EarlierSegment
from lookhear.engine.speech.recognizer import Recognizer
from lookhear.engine.speech.segment_text import SegmentText
from lookhear.engine.speech.text.agreement import is_punctuation
from lookhear.engine.speech.text.hypothesis import Hypothesis
from tests.engine.speech.scripted import SpeltTokens

WORDS = [" the", " P", "AM", " key", ".", " Log", "桜", "が"]
RECOGNIZER = cast("Recognizer", SpeltTokens(WORDS))
LEAST = math.log(0.5)
SURE, UNSURE = math.log(0.9), math.log(0.2)

said = st.lists(
    st.tuples(st.integers(0, len(WORDS) - 1), st.sampled_from([SURE, UNSURE])), max_size=12
)


def text(*parts: list[tuple[int, float]]) -> SegmentText:
    segment = SegmentText(RECOGNIZER)
    for part in parts:
        segment.add(Hypothesis(tuple(t for t, _ in part), tuple(p for _, p in part)), LEAST)
    return segment


@pytest.mark.parametrize(
    ("tokens", "unsure", "language", "kept"),
    [
        ([0, 1, 2, 3, 4], [], "en", [0, 1, 2, 3, 4]),
        ([0, 1, 2, 3, 4], [2], "en", [0, 3, 4]),  # the word whole
        ([0, 1, 2, 3, 4], [1], "en", [0, 3, 4]),
        ([0, 1, 2, 3, 4], [4], "en", [0, 1, 2, 3, 4]),  # a sign is none
        ([0, 1, 2, 4, 5], [1, 4], "en", [0, 4]),
        ([1, 2, 4], [1], "en", []),  # no word is left
        ([6, 7], [1], "ja", [6]),
        ([6, 7], [1], "en", []),
    ],
)
def test_improbable_words_are_left_out(
    tokens: list[int], unsure: list[int], language: str, kept: list[int]
) -> None:
    part = [(token, UNSURE if i in unsure else SURE) for i, token in enumerate(tokens)]
    assert text(part).probable(language) == kept


@given(said, said, st.sampled_from([None, "en", "ja"]))
def test_it_is_the_same_however_it_was_committed_and_goes_on_elsewhere(
    first: list[tuple[int, float]], rest: list[tuple[int, float]], language: str | None
) -> None:
    whole, parts = text(first + rest), text(first, rest)
    assert whole.tokens == parts.tokens == [token for token, _ in first + rest]
    assert whole.spelt == parts.spelt == b"".join(WORDS[t].encode() for t in whole.tokens)
    assert whole.probable(language) == parts.probable(language)
    told = SegmentText(RECOGNIZER, parts.tokens, parts.improbable)
    assert told.probable(language) == parts.probable(language) and told.spelt == parts.spelt


@given(said)
def test_what_is_left_was_sure(part: list[tuple[int, float]]) -> None:
    kept = text(part).probable("en")
    sure = [t for t, p in part if p == SURE or is_punctuation(WORDS[t].encode())]
    rest = iter(sure)
    assert all(token in rest for token in kept), "in order, nothing else"
    if all(p == SURE for _, p in part):
        assert kept == [token for token, _ in part]


def test_a_sentence_that_is_known_is_told_as_fast_as_it_is_usually_said() -> None:
    pieces = [" Do", " enter", " your", " extension", " now", "."]  # 23 letters
    sentence = list(range(len(pieces)))
    recognizer = cast("Recognizer", SpeltTokens(pieces))

    def told(
        before: list[int], said: list[int], new: list[int], seconds: float, *, is_over: bool = False
    ) -> int:
        """Of what is heard in 1.1 s, by a voice that needed so long for what it said before."""
        audio = np.zeros(round(seconds * SAMPLE_RATE), np.float32)
        segment = EarlierSegment(audio, 0, len(audio), tuple(before), "en", "transcribe")
        samples = round(1.1 * SAMPLE_RATE)
        text, earlier = SegmentText(recognizer, said), Earlier(None, (segment,))
        return text.num_told(new, samples, earlier, is_over=is_over)

    assert told([], [], sentence, 2.0) == 6, "room for 27 letters"
    assert told(sentence, [], sentence, 2.0) == 3, "for 15"
    assert told(sentence, [], sentence, 3.0) == 2, "for nine"
    assert told(sentence, [], sentence, 30.0) == 1, "for six"
    assert told(sentence, [0, 1], [2, 3, 4, 5], 2.0) == 1
    assert told(sentence, [], sentence, 2.0, is_over=True) == 6
    assert told([0, 4, 5], [], sentence, 2.0) == 6, "begins otherwise"
