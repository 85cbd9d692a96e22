"""Words that get times, and times put in order: as transformers' processor does both."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers.models.qwen3_asr import processing_qwen3_asr as theirs

from lookhear.engine.qwen3_asr.alignment import (
    aligned_words,
    in_order,
    read_alignment,
    word_spans,
)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  ...  ",
        "Don't  stop!",
        "naïve café, 3.5 €",
        "你好 world再见x",
        "a\nb\tc",
        "x-ray (no)",
    ],
)
def test_words_are_those_of_the_processor(text: str) -> None:
    processor = object.__new__(theirs.Qwen3ASRProcessor)
    assert aligned_words(text) == processor.split_words_for_alignment(text)


@settings(max_examples=200, deadline=None)
@given(st.text(st.sampled_from("aé'3-. ,\n你好—«»½\u0301")))
def test_a_word_is_where_the_text_has_it(text: str) -> None:
    spans = word_spans(text)
    assert all(first < end for first, end in spans)
    assert all(end <= first for (_, end), (first, _) in pairwise(spans))
    words = aligned_words(text)
    assert len(words) == len(spans)
    for word, (first, end) in zip(words, spans, strict=True):
        spelt = text[first:end]
        assert not any(char.isspace() for char in spelt)
        assert aligned_words(spelt) == [word]
        assert (spelt[0], spelt[-1]) == (word[0], word[-1])
    outside = set(range(len(text))).difference(*(range(*span) for span in spans))
    assert not any(text[i].isalnum() or text[i] == "'" for i in outside)


def test_a_word_keeps_what_is_not_read_inside_of_it() -> None:
    text = " A well-known (one), 3.5 — 你好!"
    assert [text[a:b] for a, b in word_spans(text)] == ["A", "well-known", "one", "3.5", "你", "好"]
    assert aligned_words(text) == ["A", "wellknown", "one", "35", "你", "好"]


@pytest.mark.parametrize("spread", [3, 30, 300])
@pytest.mark.parametrize("count", [1, 2, 3, 8, 40])
def test_times_are_those_of_the_processor(count: int, spread: int) -> None:
    random = np.random.default_rng(count * spread)
    for noise in (0, 2, spread):
        for _ in range(40):
            steps = np.sort(random.integers(spread, size=count))
            times = np.float64(80) * (steps + random.integers(-noise, noise + 1, size=count))
            got = in_order(times)
            assert got == theirs._fix_timestamps(times)
            assert all(a <= b for a, b in pairwise(got))


def test_one_wrong_time_is_that_of_the_word_before() -> None:
    words = read_alignment(["so", "it", "is"], [1, 3, 90, 7, 8, 10], 80.0)
    assert [(w.text, w.start, w.end) for w in words] == [
        ("so", 0.08, 0.24), ("it", 0.24, 0.56), ("is", 0.64, 0.8),
    ]  # fmt: skip


def test_no_words_have_no_times() -> None:
    assert read_alignment([], [], 80.0) == []
