"""Which words two hypotheses agree on."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engine.sessions.agreement import agreed_words, common_prefix, is_boundary, trim_loop

PIECES = [b" turn", b" on", b" six", b"ty", b".", b",", b" the", b"\xe4\xb8", b"\xad", b"?"]
tokens = st.lists(st.integers(0, len(PIECES) - 1), max_size=12)


def piece(token: int) -> bytes:
    return PIECES[token]


def ids(*words: str) -> list[int]:
    return [PIECES.index(word.encode()) for word in words]


@given(tokens, tokens, st.booleans(), st.booleans())
def test_agreement_is_a_common_prefix_of_whole_words(
    old: list[int], new: list[int], hold: bool, unspaced: bool
) -> None:
    n = agreed_words(old, new, piece, hold_last=hold, unspaced=unspaced)
    assert 0 <= n <= common_prefix(old, new)
    assert is_boundary(new, n, piece, unspaced)
    assert is_boundary(old, n, piece, unspaced)


def test_a_word_that_may_still_grow_is_kept_back() -> None:
    assert agreed_words(ids(" on", " six"), ids(" on", " six", "ty"), piece, hold_last=False) == 1
    assert agreed_words(ids(" on", " six"), ids(" on", " six"), piece, hold_last=True) == 1
    assert agreed_words(ids(" on", " six"), ids(" on", " six"), piece, hold_last=False) == 2


def test_a_closing_full_stop_waits_for_what_follows() -> None:
    old = ids(" turn", " on", ".")
    assert agreed_words(old, ids(" turn", " on", "."), piece, hold_last=False) == 2
    assert agreed_words(old, ids(" turn", " on", ",", " the"), piece, hold_last=False) == 2
    assert agreed_words(old, ids(" turn", " on", ".", " the"), piece, hold_last=False) == 3


def test_half_a_character_is_not_a_word() -> None:
    whole = [7, 8]
    assert agreed_words([7], whole, piece, hold_last=False, unspaced=True) == 0
    assert agreed_words(whole, [*whole, 0], piece, hold_last=False, unspaced=True) == 2


@given(tokens)
def test_trimming_a_loop_leaves_a_beginning(new: list[int]) -> None:
    assert new[: len(trim_loop(new))] == trim_loop(new)


def test_trimming_keeps_one_saying() -> None:
    assert trim_loop([4, *[1, 2] * 5]) == [4, 1, 2]
    assert trim_loop([1, 1, 1]) == [1, 1, 1]
