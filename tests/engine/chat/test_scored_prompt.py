"""What is told of a prompt's tokens, however many of them a step reads."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lookhear.engine.chat.scored_prompt import ScoredPrompt
from lookhear.engine.paged.wanted.prompts import Scored

TOKENS = st.integers(0, 9)
LOGPROBS = st.floats(-20, 0)
TOPS = st.lists(st.tuples(TOKENS, LOGPROBS), max_size=3)


@given(
    TOKENS,
    st.lists(st.tuples(TOKENS, LOGPROBS, TOPS), max_size=12),
    st.integers(0, 2),
    st.lists(st.integers(0, 12), max_size=5),
)
def test_all_is_told_in_order_wherever_the_steps_end(
    first: int,
    others: list[tuple[int, float, list[tuple[int, float]]]],
    most: int,
    steps: list[int],
) -> None:
    tokens = [first, *(token for token, _, _ in others)]
    scores = [Scored(logprob, top) for _, logprob, top in others]
    scored = ScoredPrompt(tokens, most, lambda token: b"<%d>" % token)
    for end in [*sorted(steps), len(scores)]:
        scored.take(scores[:end])
    told = scored.whole()
    assert [told.pieces[place] for place in told.tokens] == [b"<%d>" % token for token in tokens]
    assert told.logprobs == [0.0, *(logprob for _, logprob, _ in others)]
    found = [
        [(told.pieces[place], logprob) for place, logprob in zip(*each, strict=True)]
        for each in zip(told.top, told.top_logprobs, strict=True)
    ]
    expected = [[(b"<%d>" % token, p) for token, p in top[:most]] for _, _, top in others]
    assert found == [[], *expected]
    assert len(set(told.pieces)) == len(told.pieces), "each is spelt once"
