"""Words of a result are those of its text."""

from __future__ import annotations

import pytest

from lookhear.engine.messages import Word
from lookhear.gateway.deepgram.shapes import alternative


@pytest.mark.parametrize(
    ("text", "said", "words"),
    [
        ("A cold-hearted one.", ["A", "cold", "-hearted", "one."], ["A", "cold-hearted", "one."]),
        ("It is 3.5", ["It", "is", "3", ".5"], ["It", "is", "3.5"]),
        ("at www.example.org.", ["at", "www", ".example", ".org."], ["at", "www.example.org."]),
        ("well- known -five .NET", ["well-", "known", "-five", ".NET"], None),
        ("cold-hearted", ["cold"], ["cold"]),  # the rest is not sure yet
        ("one two .NET", ["two", ".NET"], ["two", ".NET"]),  # one has no time
        ("\u4f60\u597d,\u518d\u89c1", ["\u4f60", "\u597d,", "\u518d\u89c1"], None),
        ("and so on", ["and", "so", "on", "-more"], None),
        ("", ["more"], None),
    ],
)
def test_a_word_of_the_text_is_one(text: str, said: list[str], words: list[str] | None) -> None:
    given = [Word(word, float(i), i + 0.5, 1 - i / 10) for i, word in enumerate(said)]
    told = alternative(text, given, 10.0, None)["words"]
    assert [word["punctuated_word"] for word in told] == (said if words is None else words)
    assert told[0]["start"] == 10.0 and told[-1]["end"] == 10.0 + given[-1].end


def test_what_is_joined_lasts_from_its_first_to_its_last_part() -> None:
    parts = [Word("cold", 1.0, 1.5, 0.9), Word("-hearted", 1.5, 2.0, 0.5)]
    (told,) = alternative("cold-hearted", parts, 0.0, None)["words"]
    assert (told["word"], told["start"], told["end"]) == ("cold-hearted", 1.0, 2.0)
    assert told["confidence"] == 0.5
