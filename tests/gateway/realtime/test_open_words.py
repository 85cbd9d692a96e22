"""Which texts break off."""

from __future__ import annotations

import pytest

from lookhear.gateway.realtime.open_words import (
    EXCLAIMED,
    EXCLAIMED_CLOSING,
    OPEN_WORDS,
    is_open,
    sentence_end,
)
from lookhear.gateway.realtime.patience import Words, probability


@pytest.mark.parametrize(
    "text", ["Please enter your", "Please enter your.", "Por favor, ingrese su...", "und, DER?"]
)
def test_what_breaks_off(text: str) -> None:
    assert is_open(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "...",
        "What do you want to do?",
        "Leave it as it is.",
        "Pulse uno.",
        "Kommst du?",
        "Fangen wir an.",
        "No.",
        "Come in!",
        "I'm coming with you.",
        "Is this yours?",
    ],
)
def test_what_may_be_all(text: str) -> None:
    assert not is_open(text)


@pytest.mark.parametrize(
    ("text", "ended", "counts"),
    [
        ("Pulse uno.", 0.9, 0.9),
        ("Por favor, ingrese su.", 0.9, 0.0),
        ("¡Clave!", 0.97, 0.5),
        ("¡Clave! ", 0.3, 0.3),
        ("停！", 0.9, 0.5),
        ("Stop! Go on.", 0.8, 0.8),
        ("", 0.1, 0.1),
    ],
)
def test_what_the_sign_behind_it_is_worth(text: str, ended: float, counts: float) -> None:
    assert sentence_end(text, Words(ended)) == Words(counts)


@pytest.mark.parametrize(
    ("text", "closing", "counts"),
    [
        ("Pulse uno.", 0.99, 0.99),
        ("Por favor, ingrese su.", 0.99, 0.0),
        ("¡Clave!", 0.999, EXCLAIMED_CLOSING),
        ("¡Clave! ", 0.3, 0.3),
    ],
)
def test_what_it_is_worth_that_no_other_word_comes(
    text: str, closing: float, counts: float
) -> None:
    assert sentence_end(text, Words(0.4, closing)).closing == counts


def test_an_exclamation_mark_tells_neither_way() -> None:
    nothing, exclaimed = (
        probability(0.7, Words(0.5)),
        probability(0.7, Words(EXCLAIMED, EXCLAIMED_CLOSING)),
    )
    assert exclaimed == pytest.approx(nothing, abs=0.03)


def test_words_are_in_small_letters_and_without_signs() -> None:
    assert all(word.isalpha() and word == word.lower() for word in OPEN_WORDS)
