"""The grammar: parallel languages, a fixed held-out part, numbers in words."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.recipes.speech.grammar import LANGUAGES, sentence
from tools.recipes.speech.numbers_in_words import in_words
from tools.recipes.speech.scoring import edit_distance, words_of


def test_held_out_sentences_never_occur_in_training_in_any_language() -> None:
    rng = random.Random(3)
    train = [sentence(rng, False) for _ in range(6000)]
    held_out = [sentence(rng, True) for _ in range(1500)]
    for language in LANGUAGES:
        known = {s.text(language) for s in train}
        assert not known & {s.text(language) for s in held_out}


def test_sentences_repeat_from_their_seed() -> None:
    a, b = random.Random(7), random.Random(7)
    assert [sentence(a, False) for _ in range(50)] == [sentence(b, False) for _ in range(50)]


def test_every_sentence_has_end_punctuation_and_a_capital() -> None:
    rng = random.Random(1)
    for _ in range(500):
        for form in sentence(rng, False).forms:
            assert form[-1] in ".?", form
            assert form.lstrip("¿")[0].isupper(), form


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (0, ("zero", "cero", "null")),
        (16, ("sixteen", "dieciséis", "sechzehn")),
        (21, ("twenty-one", "veintiuno", "einundzwanzig")),
        (30, ("thirty", "treinta", "dreißig")),
        (47, ("forty-seven", "cuarenta y siete", "siebenundvierzig")),
        (99, ("ninety-nine", "noventa y nueve", "neunundneunzig")),
    ],
)
def test_numbers(number: int, words: tuple[str, str, str]) -> None:
    assert tuple(in_words(number, language) for language in LANGUAGES) == words


def test_numbers_are_different_words() -> None:
    for language in LANGUAGES:
        assert len({in_words(n, language) for n in range(100)}) == 100


def test_scoring_ignores_case_and_punctuation() -> None:
    assert words_of("¿Cuánto es Twenty-three?") == ["cuánto", "es", "twenty", "three"]


_WORDS = st.lists(st.sampled_from("abcd"), max_size=8)


@given(_WORDS, _WORDS, _WORDS)
def test_edit_distance_is_a_metric(a: list[str], b: list[str], c: list[str]) -> None:
    assert edit_distance(a, a) == 0
    assert edit_distance(a, b) == edit_distance(b, a)
    assert edit_distance(a, c) <= edit_distance(a, b) + edit_distance(b, c)
    assert edit_distance(a, b) <= max(len(a), len(b))
