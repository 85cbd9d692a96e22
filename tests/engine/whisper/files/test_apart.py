"""Which texts of short answers are not as many as there were."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookhear.engine.whisper.files.apart import is_miscounted


@pytest.mark.parametrize(
    ("text", "segments", "stretches", "expected"),
    [
        ("no no no", 1, 3, False),
        ("no no no no", 1, 3, True),
        ("no no", 1, 3, True),
        ("thank you thank you thank you", 1, 3, False),  # the same phrase in each
        ("thank you thank you thank you thank you", 1, 3, True),
        ("yes no yes no yes no", 1, 6, False),
        ("yes no yes no yes no", 1, 5, True),
        ("yes no yes yes no no yes", 1, 6, True),  # the same few, in any order
        ("yes no maybe yes not yet no yes maybe no", 1, 9, False),  # one of them has two words
        ("half past ten maybe tomorrow", 1, 3, False),  # who knows how many words an answer has
        ("yes maybe", 3, 2, True),  # the model itself says that there are three
        ("no no no", 1, 1, False),  # no pause tells how many they are
        ("", 0, 4, False),  # silence
    ],
)
def test_what_is_miscounted(text: str, segments: int, stretches: int, expected: bool) -> None:
    assert is_miscounted(text.split(), segments, stretches) is expected


@given(answers=st.lists(st.sampled_from("abcde"), min_size=1))
def test_a_word_for_each_stretch_is_counted_rightly(answers: list[str]) -> None:
    assert not is_miscounted(answers, len(answers), len(answers))
    assert not is_miscounted(answers, 1, len(answers))


@given(
    phrase=st.lists(st.sampled_from("abcde"), min_size=1, unique=True),
    count=st.integers(1, 20),
)
def test_a_phrase_for_each_stretch_is_counted_rightly(phrase: list[str], count: int) -> None:
    assert not is_miscounted(phrase * count, 1, count)
