"""Drafts by looking back: always what really followed the same tokens, however a context grew."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lookhear.engine.drafts.lookup import SIZES, Lookup

TOKENS = st.lists(st.integers(0, 3), max_size=40)


def looked_up(context: list[int], most: int, begun: tuple[int, ...] = ()) -> tuple[int, ...]:
    lookup = Lookup()
    lookup.extend(context)
    return lookup.draft(most, begun)


@given(TOKENS, st.integers(0, 12), st.lists(st.integers(0, 40), max_size=6))
def test_a_context_that_grew_is_one_that_came_whole(
    context: list[int], most: int, cuts: list[int]
) -> None:
    lookup = Lookup()
    for cut in sorted(min(cut, len(context)) for cut in cuts):
        lookup.extend(context[:cut])
    lookup.extend(context)
    assert lookup.draft(most) == looked_up(context, most)


@given(TOKENS, st.integers(1, 12))
def test_a_draft_is_what_came_last_behind_the_same_tokens(context: list[int], most: int) -> None:
    draft = looked_up(context, most)
    assert len(draft) in (0, most)
    for size in SIZES:
        end = context[-size:]
        places = [
            place
            for place in range(size, len(context))
            if len(end) == size and context[place - size : place] == end
        ]
        if places:
            both = [*context, *draft]
            assert all(both[places[-1] + i] == token for i, token in enumerate(draft))
            return
    assert draft == ()


def test_what_repeats_itself_is_guessed_to_go_on() -> None:
    assert looked_up([7, 1, 2, 1, 2, 1, 2], 5) == (1, 2, 1, 2, 1)


def test_what_comes_first_is_part_of_the_draft_and_looked_back_behind() -> None:
    context = [1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert looked_up(context, 5, begun=(3, 4)) == (3, 4, 5, 6, 7)
    assert looked_up(context, 1, begun=(3, 4)) == (3,)
    assert looked_up(context, 4, begun=(30,)) == (30,)
