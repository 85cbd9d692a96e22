"""Word error rate, against counts done by hand and against jiwer's definition."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookhear.wer import WordErrors, align, errors_by_part, normalise, total, word_errors

WORDS = st.lists(st.sampled_from(["a", "b", "c", "d"]), max_size=8)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Hello, World!", ["hello", "world"]),
        ("it's  O\u2019Brien's 'quote'", ["it's", "o'brien's", "quote"]),
        (
            "\u00bfD\u00f3nde est\u00e1? \u2014 a\u00f1o 25",
            ["d\u00f3nde", "est\u00e1", "a\u00f1o", "25"],
        ),
        ("stra\u00dfe  \u00dcbung\u2026", ["stra\u00dfe", "\u00fcbung"]),
        ("e\u0301te\u0301", ["\u00e9t\u00e9"]),
        (" .,! ", []),
    ],
)
def test_normalise(text: str, words: list[str]) -> None:
    assert normalise(text) == words


@pytest.mark.parametrize(
    ("reference", "hypothesis", "errors"),
    [
        ("a b c", "a b c", WordErrors(0, 0, 0, 3)),
        ("a b c", "a x c", WordErrors(1, 0, 0, 3)),
        ("a b c", "a c", WordErrors(0, 1, 0, 3)),
        ("a b c", "a b b c", WordErrors(0, 0, 1, 3)),
        ("a b c", "", WordErrors(0, 3, 0, 3)),
        ("", "a b", WordErrors(0, 0, 2, 0)),
    ],
)
def test_counts(reference: str, hypothesis: str, errors: WordErrors) -> None:
    assert word_errors(reference, hypothesis) == errors


@given(st.lists(WORDS, min_size=1, max_size=4), WORDS)
def test_errors_of_parts_add_up(parts: list[list[str]], heard: list[str]) -> None:
    found = errors_by_part(parts, heard)
    assert [errors.words for errors in found] == [len(part) for part in parts]
    whole = " ".join(word for part in parts for word in part)
    assert total(found) == word_errors(whole, " ".join(heard))


def test_an_error_is_its_parts() -> None:
    first, second = errors_by_part([["a", "b"], ["c", "d"]], ["a", "b", "x", "d", "y"])
    assert first == WordErrors(0, 0, 0, 2) and second == WordErrors(1, 0, 1, 2)


def test_the_corpus_rate_weighs_by_words() -> None:
    corpus = total([word_errors("a", "b"), word_errors("a b c d e f g h i", "a b c d e f g h i")])
    assert corpus.rate == pytest.approx(0.1)
    assert WordErrors().rate == 0.0 and word_errors("", "x").rate == 1.0


def distance(a: list[str], b: list[str]) -> int:
    """Levenshtein by its definition."""
    if not a or not b:
        return len(a) + len(b)
    return min(
        distance(a[1:], b[1:]) + (a[0] != b[0]), distance(a[1:], b) + 1, distance(a, b[1:]) + 1
    )


@given(st.lists(st.sampled_from("abc"), max_size=5), st.lists(st.sampled_from("abc"), max_size=5))
def test_the_alignment_is_cheapest(reference: list[str], hypothesis: list[str]) -> None:
    pairs = align(reference, hypothesis)
    cost = sum(i is None or j is None or reference[i] != hypothesis[j] for i, j in pairs)
    assert cost == distance(reference, hypothesis)


@given(WORDS, WORDS)
def test_the_alignment_names_every_word_once_and_in_order(
    reference: list[str], hypothesis: list[str]
) -> None:
    pairs = align(reference, hypothesis)
    assert [i for i, _ in pairs if i is not None] == list(range(len(reference)))
    assert [j for _, j in pairs if j is not None] == list(range(len(hypothesis)))
