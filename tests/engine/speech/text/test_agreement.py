"""Which words two hypotheses agree on."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lookhear.engine.speech.text.agreement import (
    Letters,
    agreed_letters,
    agreed_words,
    common_prefix,
    is_boundary,
    is_punctuation,
    num_unheld,
    trim_loop,
)

PIECES = [b" turn", b" on", b" six", b"ty", b".", b",", b" the", b"\xe4\xb8", b"\xad", b"?"]
tokens = st.lists(st.integers(0, len(PIECES) - 1), max_size=12)


def piece(token: int) -> bytes:
    return PIECES[token]


def ids(*words: str) -> list[int]:
    return [PIECES.index(word.encode()) for word in words]


@given(st.lists(tokens, min_size=1, max_size=3), tokens, st.integers(0, 2), st.booleans())
def test_agreement_is_a_common_prefix_of_whole_words(
    older: list[list[int]], new: list[int], held: int, unspaced: bool
) -> None:
    n = agreed_words(older, new, piece, held_words=held, unspaced=unspaced)
    said = b"".join(map(piece, new[:n]))
    assert all(b"".join(map(piece, old)).startswith(said) for old in older)
    alike = min(common_prefix(old, new) for old in older)
    ends = [k for k in range(alike + 1) if all(is_boundary(t, k, piece, unspaced) for t in older)]
    unheld = num_unheld(new, piece, held_words=held, unspaced=unspaced)
    whole = [k for k in ends if k <= unheld and is_boundary(new, k, piece, unspaced)]
    assert n >= max(whole), "the same tokens are the same words"
    assert is_boundary(new, n, piece, unspaced)
    assert agreed_words(older, new, piece, held_words=held + 1, unspaced=unspaced) <= n


@given(st.lists(tokens, min_size=1, max_size=3), tokens, st.booleans())
def test_same_letters_are_at_least_what_is_the_same(
    older: list[list[int]], new: list[int], unspaced: bool
) -> None:
    def letters(ids: list[int]) -> str:
        return Letters.of(ids, piece).text

    same = agreed_words(older, new, piece, held_words=0, unspaced=unspaced)
    n = agreed_letters(older, new, piece, unspaced=unspaced, limit=len(new))
    while same and is_punctuation(piece(new[same - 1])):
        same -= 1
    assert same <= n <= len(new)
    assert is_boundary(new, n, piece, unspaced)
    assert all(letters(old).startswith(letters(new[:n])) for old in older)
    assert agreed_letters(older, new, piece, unspaced=unspaced, limit=n) == n


@given(st.lists(tokens, min_size=1, max_size=5), tokens, st.booleans())
def test_a_share_of_the_looks_begins_with_what_it_agrees_on(
    older: list[list[int]], new: list[int], unspaced: bool
) -> None:
    def agreed_by(share: float) -> int:
        return agreed_letters(older, new, piece, unspaced=unspaced, limit=len(new), share=share)

    def letters(ids: list[int]) -> str:
        return Letters.of(ids, piece).text

    counts = [agreed_by(share) for share in (0.6, 0.8, 1.0)]
    assert counts == sorted(counts, reverse=True), "the more have to agree, the less is agreed on"
    said = letters(new[: counts[0]])
    having = 1 + sum(letters(old).startswith(said) for old in older)
    assert not said or having >= 0.6 * (len(older) + 1)


def test_words_are_alike_in_whatever_tokens() -> None:
    words = {
        1: b" Cl",
        2: b"ave",
        3: b" C",
        4: b"lave",
        5: b" mal",
        6: b"aves",
        7: b"\xc3",
        8: b"\xa9",
    }

    def agreed(old: list[int], new: list[int]) -> int:
        return agreed_words([old], new, words.__getitem__, held_words=0)

    assert agreed([3, 4, 5], [1, 2, 5]) == 3
    assert agreed([3, 4], [1, 2, 5]) == 2
    assert agreed([1, 6], [3, 4]) == 0, "that one is longer"
    assert agreed([3, 2], [1, 2]) == 0
    words[9] = b" \xc3\xa9"
    words[10] = b" \xc3"
    assert agreed([10, 8, 5], [9, 5]) == 2
    assert agreed([10], [9]) == 0, "half a character"


def test_letters_are_counted_by_whole_words() -> None:
    old, new = ids(" on", ",", " six", "ty"), ids(" on", ".", " six")
    assert agreed_letters([old], new, piece, limit=3) == 1
    letters = Letters.of(old, piece)
    assert letters.text == "onsixty"
    assert [letters.num_tokens(n) for n in (0, 2, 5, 7)] == [0, 1, None, 4]


def agreed(old: list[int], new: list[int], held: int = 0, *, unspaced: bool = False) -> int:
    return agreed_words([old], new, piece, held_words=held, unspaced=unspaced)


def test_a_word_that_may_still_grow_is_kept_back() -> None:
    assert agreed(ids(" on", " six"), ids(" on", " six", "ty")) == 1
    assert agreed(ids(" on", " six"), ids(" on", " six"), held=1) == 1
    assert agreed(ids(" on", " six", "ty"), ids(" on", " six", "ty"), held=1) == 1
    assert agreed(ids(" on", " six"), ids(" on", " six")) == 2


def test_a_closing_full_stop_waits_for_what_follows() -> None:
    old = ids(" turn", " on", ".")
    assert agreed(old, ids(" turn", " on", ".")) == 2
    assert agreed(old, ids(" turn", " on", ",", " the")) == 2
    assert agreed(old, ids(" turn", " on", ".", " the")) == 3


def test_half_a_character_is_not_a_word() -> None:
    whole = [7, 8]
    assert agreed([7], whole, unspaced=True) == 0
    assert agreed(whole, [*whole, 0], unspaced=True) == 2


def test_nobody_to_agree_with() -> None:
    assert agreed_words([], [1, 2], piece, held_words=0) == 0


@given(tokens)
def test_trimming_a_loop_leaves_a_beginning(new: list[int]) -> None:
    assert new[: len(trim_loop(new))] == trim_loop(new)


def test_trimming_keeps_one_saying() -> None:
    assert trim_loop([4, *[1, 2] * 5]) == [4, 1, 2]
    assert trim_loop([1, 1, 1]) == [1, 1, 1]
    assert trim_loop([*[1, 2, 3, 3] * 4]) == [1, 2, 3, 3]
    assert trim_loop([4, *[1, 2, 3] * 2], 2) == trim_loop([4, 1, 2, 3], 2) == [4, 1, 2, 3]
    assert trim_loop([*[1, 2, 1, 2, 3] * 3, 1, 2], 2) == [1, 2, 1, 2, 3, 1, 2]  # all of it


def test_a_limit_counts_whole_words() -> None:
    words = [b" four", b"teen", b" apples", b" and"]
    tokens = [0, 1, 2, 3]
    for limit, expected in ((0, 0), (1, 0), (2, 2), (3, 3), (9, 4)):
        got = agreed_words([tokens], tokens, words.__getitem__, held_words=0, limit=limit)
        assert got == expected, limit
