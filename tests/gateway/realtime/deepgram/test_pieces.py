"""A word whose parts are sure at different times is one word, as in the text."""

from __future__ import annotations

import pytest

from lookhear.engine.messages import Word
from lookhear.gateway.realtime.deepgram.flux_turns import FluxTurn
from lookhear.gateway.realtime.deepgram.pieces import Turn


def said(*parts: tuple[str, list[str]]) -> Turn:
    """Deltas, each with the words that follow it."""
    turn, end = Turn(0.0, 0.0), 0.0
    for text, words in parts:
        turn.add(text, None)
        made = [Word(word, end + i, end + i + 1.0, 0.9 - i / 10) for i, word in enumerate(words)]
        turn.hear(made)
        end += len(made)
    return turn


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ([("an inter", ["an", "inter"]), ("-asterisk call", ["-asterisk", "call"])],
         ["an", "inter-asterisk", "call"]),
        ([("an inter-", ["an", "inter-"]), ("asterisk", ["asterisk"])], ["an", "inter-asterisk"]),
        ([("they", ["they"]), ("\u2019re here", ["\u2019re", "here"])], ["they\u2019re", "here"]),
        ([("all", ["all"]), (". And", ["And"])], ["all.", "And"]),
        ([("all", ["all"]), (" - and", ["and"])], ["all", "and"]),
        ([("-five", ["-five"])], ["-five"]),
        ([("visit www", ["visit", "www"]), (".example.org.", [".example", ".org."])],
         ["visit", "www.example.org."]),
        ([("visit www", ["visit", "www"]), (".example.org. And", ["example.org.", "And"])],
         ["visit", "www.example.org.", "And"]),
        ([("at 3", ["at", "3"]), (":30, he", [":30,", "he"])], ["at", "3:30,", "he"]),
    ],
)  # fmt: skip
def test_words_are_those_of_the_text(parts: list[tuple[str, list[str]]], words: list[str]) -> None:
    turn = said(*parts)
    assert [word.word for word in turn.words] == words
    assert turn.words[-1].end == sum(len(told) for _, told in parts)
    ends = [word.end for word in turn.words]
    assert ends == sorted(ends)


def test_words_of_a_turn_that_are_known_at_once_are_those_of_its_text() -> None:
    turn = FluxTurn(0.0, 0.0)
    turn.add("cold-hearted", None)
    turn.hear([Word("cold", 0.0, 1.0, 0.9), Word("-hearted", 1.0, 2.0, 0.5)])
    turn.guess = " and"
    sure, guess = turn.all_words()
    assert sure == {"word": "cold-hearted", "confidence": 0.5, "start": 0.0, "end": 2.0}
    assert guess == {"word": "and", "confidence": 0.0}
