"""Words of a text: none of its tokens is lost, punctuation stays with its word."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lookhear.engine.speech.text.words import group_words

PIECES = [
    b" Hello",
    b",",
    b" wor",
    b"ld",
    b"!",
    b" \xe2\x80",
    b"\x9cYes",
    b".\xe2\x80\x9d",
    b" \xc3",
]


def decode(tokens: list[int] | tuple[int, ...]) -> bytes:
    return b"".join(PIECES[t] for t in tokens)


def test_words_and_their_punctuation() -> None:
    words = group_words(list(range(8)), decode, "en")  # type: ignore[arg-type]
    assert words == [(" Hello,", 0, 2), (" world!", 2, 5), (" “Yes.”", 5, 8)]
    assert group_words([8], decode, "en") == [(" \ufffd", 0, 1)]  # type: ignore[arg-type]


def test_words_without_spaces() -> None:
    pieces = ["今", "日は", "。", "雨"]
    words = group_words([0, 1, 2, 3], lambda t: "".join(pieces[i] for i in t).encode(), "ja")
    assert words == [("今", 0, 1), ("日は。", 1, 3), ("雨", 3, 4)]


@pytest.mark.parametrize(
    "text",
    [
        " It| costs| $|3|.|50| now",
        " at| 10|:|30|,| or| 1|,|250|.",
        " O|'|Brien's| well|-|known",
        " see| www|.|example|.|org|.",
        ' so|...| and|.|"| (|or|)|,| he',
    ],
    ids=["money", "numbers", "names", "address", "signs"],
)
def test_a_word_goes_on_behind_a_sign_within_it(text: str) -> None:
    """As the text has it: between two words there is a blank."""
    pieces = text.encode().split(b"|")
    words = group_words(
        range(len(pieces)), lambda tokens: b"".join(pieces[t] for t in tokens), "en"
    )
    assert [word for word, _, _ in words] == [f" {word}" for word in text.replace("|", "").split()]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 8), max_size=12), st.sampled_from(["en", "ja", None]))
def test_no_token_is_lost(tokens: list[int], language: str | None) -> None:
    words = group_words(tokens, decode, language)  # type: ignore[arg-type]
    edges = [0, *(last for _, _, last in words)]
    assert [first for _, first, _ in words] == edges[:-1] and edges[-1] == len(tokens)
