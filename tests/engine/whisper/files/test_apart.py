"""Which texts of short answers are not as many as there were."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookhear.engine.messages import SAMPLE_RATE
from lookhear.engine.speech.condensed import CondensedAudio
from lookhear.engine.speech.text.hypothesis import Hypothesis
from lookhear.engine.whisper.files.apart import is_miscounted, spelt_words
from lookhear.engine.whisper.files.pieces import Cut, Piece
from tests.engine.speech.scripted import SpeltTokens


def judged(words: Sequence[str], segments: int, stretches: int, lasting: float = 0.5) -> bool:
    """Of so many stretches of speech, that last so many seconds, with a second between."""
    spoken, step = round(lasting * SAMPLE_RATE), round((lasting + 1) * SAMPLE_RATE)
    speech = [(step * n, step * n + spoken) for n in range(stretches)]
    audio = CondensedAudio(np.zeros(step * stretches, np.float32), speech)
    return is_miscounted(words, segments, audio, 0, len(audio.samples))


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
    assert judged(text.split(), segments, stretches) is expected


@given(answers=st.lists(st.sampled_from("abcde"), min_size=1))
def test_a_word_for_each_stretch_is_counted_rightly(answers: list[str]) -> None:
    assert not judged(answers, len(answers), len(answers))
    assert not judged(answers, 1, len(answers))


@given(
    phrase=st.lists(st.sampled_from("abcde"), min_size=1, unique=True),
    count=st.integers(1, 20),
)
def test_a_phrase_for_each_stretch_is_counted_rightly(phrase: list[str], count: int) -> None:
    assert not judged(phrase * count, 1, count)


@pytest.mark.parametrize(("lasting", "expected"), [(0.5, True), (1.9, True), (2.1, False)])
def test_long_sentences_are_no_answers(lasting: float, expected: bool) -> None:
    assert judged(["no"], 1, 3, lasting) is expected


def test_words_are_spelt_without_signs() -> None:
    vocabulary = SpeltTokens([" No", ",", " no", "body", " -", " 7", "."])
    heard = Hypothesis((0, 1, 2, 3, 4, 5, 6), (-0.1,) * 7)
    cut = Cut([Piece(0, 2, " No,", 0.0, 1.0), Piece(2, 7, " nobody - 7.", 1.0, 2.0)], None, True)
    assert spelt_words(cut, heard, vocabulary.decode_bytes, "en") == ["no", "nobody", "7"]
