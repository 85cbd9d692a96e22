"""What is left of a draft behind a word that is written again only later."""

from __future__ import annotations

from lookhear.engine.sampling.expected import ExpectedWords
from lookhear.engine.sampling.expecting import Expecting, rejoined


def test_a_draft_is_right_again_behind_two_tokens_of_it() -> None:
    draft = (1, 2, 3, 4, 5)
    assert rejoined(draft, [9, 2, 3]) == (4, 5)
    assert rejoined(draft, [2, 9, 3]) == ()
    assert rejoined((), [2, 3]) == ()
    assert rejoined((1, 2, 7, 1, 2, 8, 9), [1, 2]) == (8, 9), "the last place of several"


def test_what_is_cached_is_not_fed_again_but_for_the_last_token() -> None:
    expecting = Expecting(ExpectedWords([], lambda text: [], lambda token: b""))
    assert expecting.num_cached([1, 2]) == 0
    expecting.read([1, 2, 3, 4])
    assert expecting.num_cached([1, 2, 3]) == 2
    assert expecting.num_cached([1, 2, 5, 4]) == 2
    assert expecting.num_cached([1, 2, 3, 4, 5, 6]) == 4
