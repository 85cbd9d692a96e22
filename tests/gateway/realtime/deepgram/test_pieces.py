"""A word whose parts are sure at different times is one word, as in the text."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import pytest

from lookhear.engine.messages import Word
from lookhear.engine.speech.text.hypothesis import Hypothesis
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


def told(tokens: Sequence[str], cuts: Sequence[int], language: str) -> tuple[str, list[Word]]:
    """Text and words of a turn whose tokens take 0.2 s each and come in deltas with those ends."""
    turn = Turn(0.0, 0.0)
    for first, last in zip((0, *cuts), (*cuts, len(tokens)), strict=True):
        spans = tuple((0.2 * i, 0.2 * i + 0.2) for i in range(first, last))
        heard = Hypothesis(tuple(range(first, last)), (-0.1,) * (last - first), spans)
        turn.add("".join(tokens[first:last]), None)
        turn.hear(heard.words(lambda ids: "".join(tokens[i] for i in ids).encode(), language))
    alternative = turn.final(0.2 * len(tokens))["channel"]["alternatives"][0]
    words = [
        Word(word["punctuated_word"], word["start"], word["end"], word["confidence"])
        for word in alternative["words"]
    ]
    return alternative["transcript"], words


@pytest.mark.parametrize(
    ("language", "tokens"),
    [
        ("zh", ["你", "好", ",", "我", "是", "学", "生"]),
        ("zh", ["你", "好", ",", "我", "们", ":", "他", ".", "好"]),
        ("zh", ["用", "3", ".", "5", "度", ",", "hello", "你"]),
        ("zh", ["人", "々", ",", "\U00020000", "我"]),
        ("ja", ["売", "上", "は", "50", "%", "です", "。", "はい"]),
        ("ja", ["AT", "&", "T", "です"]),
        ("ja", ["20", "°", "で", "す", "、", "1", "+", "1"]),
        ("th", ["กา", "ขา", "50", "%", "ตา", ".", "มา"]),
    ],
)
def test_words_without_blanks_are_the_same_however_the_text_comes(
    language: str, tokens: list[str]
) -> None:
    text, words = told(tokens, (), language)
    assert text == "".join(tokens) == "".join(word.word for word in words)
    for count in (1, 2, 3):
        for cuts in combinations(range(1, len(tokens)), count):
            cut_text, cut_words = told(tokens, cuts, language)
            assert cut_text == text
            assert [(w.word, w.start) for w in cut_words] == [(w.word, w.start) for w in words]


@pytest.mark.parametrize(
    ("language", "tokens"),
    [
        ("en", [" She", " said", ' "', "hello,", '"', ' "', "yes", '"', " he", " said"]),
        ("en", [" Well", "...", " .", "net", " is"]),
        ("en", [" the", " (", "old", ")", " (", "new", ")."]),
        ("en", [" all", " '", "old", "'", " -", "five"]),
        ("es", [" Hola", ".", " ¿", "Qué", "?", " Ya"]),
    ],
)
def test_signs_are_of_the_word_that_the_text_joins_them_to(
    language: str, tokens: list[str]
) -> None:
    text = "".join(tokens).strip()
    for count in (0, 1, 2, 3):
        for cuts in combinations(range(1, len(tokens)), count):
            cut_text, words = told(tokens, cuts, language)
            assert cut_text == text
            assert [word.word for word in words] == text.split()


@pytest.mark.parametrize(
    ("language", "tokens"),
    [
        ("zh", ["他", "说", ":", "“", "好", "”", "。", "我", "(", "也", ")", "说"]),
        ("ja", ["「", "はい", "」", "「", "いいえ", "」", "と"]),
    ],
)
def test_where_words_have_no_blanks_an_opening_sign_is_not_of_the_one_before(
    language: str, tokens: list[str]
) -> None:
    _, whole = told(tokens, (), language)
    for count in (1, 2, 3):
        for cuts in combinations(range(1, len(tokens)), count):
            _, words = told(tokens, cuts, language)
            assert [w.word.rstrip("」") for w in words] == [w.word for w in whole]


def test_closing_signs_at_the_end_of_what_is_settled_are_of_the_word_before() -> None:
    turn = said(("„Ja", ["„Ja"]), ("“", []), (" sagt", ["sagt"]))
    assert [word.word for word in turn.words] == ["„Ja“", "sagt"]


@pytest.mark.parametrize(
    ("settled", "guess", "words"),
    [
        ("你好", "我是学生", [("你", 0.9), ("好", 0.8), ("我是学生", 0.0)]),
        ("你好", ",我是学生", [("你", 0.9), ("好,", 0.8), ("我是学生", 0.0)]),
        ("你好", "2 个", [("你", 0.9), ("好", 0.8), ("2", 0.0), ("个", 0.0)]),
        ("an inter", "-asterisk call", [("an", 0.9), ("inter-asterisk", 0.0), ("call", 0.0)]),
    ],
)
def test_a_guess_goes_on_with_the_last_settled_word_in_its_own_script_only(
    settled: str, guess: str, words: list[tuple[str, float]]
) -> None:
    turn = FluxTurn(0.0, 0.0)
    turn.add(settled, None)
    parts = settled.split() if " " in settled else list(settled)
    turn.hear([Word(part, i, i + 1.0, 0.9 - i / 10) for i, part in enumerate(parts)])
    turn.guess = guess
    assert [(word["word"], word["confidence"]) for word in turn.all_words()] == words


def test_a_guess_begins_with_the_signs_in_front_of_it() -> None:
    turn = FluxTurn(0.0, 0.0)
    turn.add("the (", None)
    turn.hear([Word("the", 0.0, 1.0, 0.9)])
    turn.guess = "old) and"
    assert [word["word"] for word in turn.all_words()] == ["the", "(old)", "and"]
