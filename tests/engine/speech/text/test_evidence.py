"""Which ticks have to agree."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lookhear.engine.speech.text.evidence import Looks
from lookhear.engine.speech.text.hypothesis import Hypothesis


def look(number: int) -> Hypothesis:
    return Hypothesis(tokens=(7, number), logprobs=(0.0, 0.0))


@given(st.lists(st.integers(1, 50), max_size=30), st.integers(1, 200))
def test_all_since_a_position_and_the_one_before(steps: list[int], evidence: int) -> None:
    looks, ends, at = Looks(), [], 0
    for number, step in enumerate(steps):
        at += step
        ends.append(at)
        expected = [i for i, end in enumerate(ends) if end > at - evidence]
        older = [i for i, end in enumerate(ends) if end <= at - evidence]
        looks.add(at, look(number), at - evidence)
        found = [hypothesis.tokens[1] for hypothesis in looks.since(at - evidence)]
        assert found == ([older[-1], *expected] if older else [])
        assert [hypothesis.tokens[1] for hypothesis in looks.last()] == [number]


def test_committed_tokens_are_no_part_of_a_look() -> None:
    looks = Looks()
    looks.add(10, look(1), 0)
    looks.commit(1)
    assert looks.last()[0].tokens == (1,)
    looks.clear()
    assert looks.last() == []
