"""Expected words: where in a text one of them may have been said."""

import math
from collections.abc import Iterable

from lookhear.engine.sampling.expected import Candidate, ExpectedWords, Strength, Told

SURE, UNSURE = math.log(0.97), math.log(0.3)
STRENGTH = Strength(behind=4.0, sure=0.9, most=3)
PIECES = [" Ann", "a", " Lee", "Ann", " lee", ".", " was", "s", " ann", "-", "é", " A", "nn", "A"]
IDS = {piece: token for token, piece in enumerate(PIECES)}


def encode(text: str) -> list[int]:
    """Longest pieces first, as a tokenizer with these merges would."""
    found = []
    while text:
        piece = max((p for p in PIECES if text.startswith(p)), key=len)
        found.append(IDS[piece])
        text = text[len(piece) :]
    return found


def expected(*words: str) -> ExpectedWords:
    return ExpectedWords(words, encode, lambda token: PIECES[token].encode(), STRENGTH)


def ids(*pieces: str) -> tuple[int, ...]:
    return tuple(IDS[piece] for piece in pieces)


def places(words: ExpectedWords, said: Iterable[str], best: float, behind: float) -> list[str]:
    """Which words may stand where, if all tokens are as likely as that, and those with which words
    begin so much less."""
    tokens = ids(*said)
    told = [Told(best, best, [best - behind] * len(words.firsts)) for _ in tokens]
    found = words.candidates(tokens, told)
    return [f"{at}{''.join(PIECES[token] for token in word)}" for at, word in found]


def test_a_word_may_stand_where_the_model_was_unsure_and_the_word_not_far_behind() -> None:
    words = expected("Anna Lee")
    assert places(words, [" was", " lee"], UNSURE, 3.0) == ["0 Anna Lee", "1 Anna Lee"]
    assert places(words, [" was", " lee"], UNSURE, 5.0) == []
    assert places(words, [" was", " lee"], SURE, 3.0) == []


def test_a_word_may_stand_where_the_model_began_as_it_does_however_sure() -> None:
    assert places(expected("Anna"), [" Ann", "s"], SURE, 0.0) == ["0 Anna"]


def test_what_is_there_is_not_tried() -> None:
    assert places(expected("Anna"), [" Ann", "a"], UNSURE, 0.0) == []


def test_a_word_begins_where_another_does() -> None:
    assert places(expected("Anna"), [" was", "s", "nn"], UNSURE, 0.0) == ["0 Anna"]
    assert places(expected("Anna"), [".", "-"], UNSURE, 0.0) == [], "no letter, no word"
    assert places(expected("Ann"), ["-", "s"], UNSURE, 0.0) == ["1Ann"], "without a space as there"
    assert places(expected("Ann"), ["é", "s"], UNSURE, 0.0) == ["0Ann"]


def test_a_word_in_small_letters_may_be_a_name() -> None:
    assert places(expected("ann"), [" was"], UNSURE, 0.0) == ["0 Ann", "0 ann"]


def test_the_likeliest_are_tried_and_no_more() -> None:
    words = expected("Anna", "A")
    ann, a = (words.firsts.index(token) for token in ids(" Ann", " A"))
    told = []
    for behind in (3.0, 1.0, 2.0):
        firsts = [-math.inf] * len(words.firsts)
        firsts[ann], firsts[a] = UNSURE - behind, UNSURE - behind - 0.5
        told.append(Told(UNSURE, UNSURE, firsts))
    found = words.candidates(ids(" was", " was", " was"), told)
    anna, one = ids(" Ann", "a"), ids(" A")
    assert found == [Candidate(1, anna), Candidate(1, one), Candidate(2, anna)]


def test_what_stands_in_front_is_no_place() -> None:
    words = expected("Anna")
    told = [Told(UNSURE, UNSURE, [UNSURE] * len(words.firsts))]
    assert [at for at, _ in words.candidates(ids(" was", " was"), told, 1)] == [1]


def test_a_word_with_more_letters_is_another() -> None:
    words = expected("Ann")
    assert not words.may_follow(IDS["s"])
    assert words.may_follow(IDS["."]) and words.may_follow(IDS[" was"])


def test_a_word_stands_for_about_as_many_letters() -> None:
    words = expected("Ann")
    assert words.is_like(ids(" Ann"), ids(" lee", " was"))
    assert not words.is_like(ids(" Ann"), ids(" lee", " was", " was", " was"))
    assert not words.is_like(ids(" lee", " was", " was", " was"), ids(" Ann"))
