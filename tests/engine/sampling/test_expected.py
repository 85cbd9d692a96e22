"""Expected words: what is lifted, and what of a word that was begun is believed."""

import math

from lookhear.engine.sampling.expected import MOST_TAKEN_BACK, ExpectedWords, Strength

BEGIN, CONTINUE = 3.0, 5.0
STRENGTH = Strength(BEGIN, CONTINUE, sure=0.5, most_lost=2.0)
PIECES = [" Ann", "a", " Lee", "Ann", " lee", ".", " was", "s", " ann", "-", "é", " A", "nn"]
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


def lifted(words: ExpectedWords, *pieces: str) -> dict[str, float]:
    return {PIECES[lift.token]: lift.nats for lift in words.lifts(ids(*pieces))}


def test_a_word_is_lifted_from_its_first_token_to_its_last() -> None:
    words = expected("Anna Lee")
    assert lifted(words, " was") == {" Ann": BEGIN}
    assert lifted(words, " was", " Ann") == {" Ann": BEGIN, "a": CONTINUE}
    assert lifted(words, " Ann", "a") == {" Ann": BEGIN, " Lee": CONTINUE}
    assert lifted(words, " Ann", "a", " Lee") == {" Ann": BEGIN}


def test_without_a_space_a_word_begins_only_behind_a_sign_or_nothing() -> None:
    words = expected("Ann")
    assert lifted(words) == lifted(words, "-") == {" Ann": BEGIN, "Ann": BEGIN}
    assert lifted(words, "é") == lifted(words, "s") == {" Ann": BEGIN}


def test_a_word_in_small_letters_may_be_a_name() -> None:
    assert lifted(expected("ann"), " was") == {" ann": BEGIN, " Ann": BEGIN}


def test_a_word_is_over_when_something_else_follows() -> None:
    words = expected("Anna")
    assert words.look(ids(" was", " Ann"), is_over=False) is None, "nothing is over yet"
    assert words.look(ids(" was", " Ann", "a"), is_over=False) is None, "it goes on"
    assert words.look(ids(" was", " Ann", " was"), is_over=False) == (1, False)
    assert words.look(ids(" was", " Ann"), is_over=True) == (1, False)
    assert words.look(ids(" was", " Ann", "a", "."), is_over=False) == (1, True)
    assert words.look(ids(" was", " Ann", "a"), is_over=True) == (1, True)


def test_a_word_with_more_letters_is_another() -> None:
    assert expected("Ann").look(ids(" Ann", "s"), is_over=False) == (0, False)
    assert expected("Ann", "Anns").look(ids(" Ann", "s"), is_over=False) is None


def test_what_was_taken_back_does_not_begin_there_again() -> None:
    words = expected("Anna")
    refused = {(1, IDS[" Ann"])}

    def tokens(*pieces: str) -> set[int]:
        return {lift.token for lift in words.lifts(ids(*pieces), refused)}

    assert IDS[" Ann"] not in tokens(" was")
    assert IDS["a"] not in tokens(" was", " Ann")
    assert words.look(ids(" was", " Ann", "s"), refused, is_over=False) is None
    assert IDS[" Ann"] in tokens(" was", " was"), "elsewhere it does"
    many = {(place, 0) for place in range(MOST_TAKEN_BACK)}
    assert words.lifts(ids(" was", " Ann"), many) == [], "so that every text comes to an end"


def test_a_word_begins_where_the_model_is_unsure_and_goes_on_anywhere() -> None:
    below = {PIECES[one.token]: one.below for one in expected("Anna").lifts(ids(" was", " Ann"))}
    assert below == {" Ann": math.log(0.5), "a": math.inf}


def test_a_word_that_loses_too_much_to_the_models_own_choices_is_not_believed() -> None:
    words = expected("Anna")
    assert words.is_believed([2.0, 1.0])
    assert not words.is_believed([2.0, 9.0])
