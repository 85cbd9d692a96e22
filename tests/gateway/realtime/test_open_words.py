"""Which texts break off."""

from __future__ import annotations

import pytest

from lookhear.gateway.realtime.open_words import OPEN_WORDS, is_open


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


def test_words_are_in_small_letters_and_without_signs() -> None:
    assert all(word.isalpha() and word == word.lower() for word in OPEN_WORDS)
