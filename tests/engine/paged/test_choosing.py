"""What the sampler is told of a sequence's next tokens."""

from __future__ import annotations

from typing import Any

from lookhear.engine.core.request import Priority
from lookhear.engine.paged.choosing import sampling_rows
from lookhear.engine.paged.request import PagedRequest, PagedSequence
from lookhear.engine.sampling.params import SamplingParams


class Watched(tuple[Any, ...]):
    """Counts how often it is gone through."""

    readings = 0

    def __iter__(self) -> Any:
        type(self).readings += 1
        return super().__iter__()


def test_a_prompt_is_gone_through_once_for_its_penalties() -> None:
    params = SamplingParams(repetition_penalty=1.2)
    request = PagedRequest("s/a", Priority.LIVE, Watched([5, 7, 5]), sampling=params)
    sequence = PagedSequence(request, frozenset(), 0, [1], fed=0)
    told = [sampling_rows(sequence, 1, 1)]
    before = Watched.readings
    for token in (7, 8):
        sequence.generated.tokens.append(token)
        told.append(sampling_rows(sequence, 1, 1))
    assert Watched.readings == before
    assert [tuple(row.history) for (row,) in told] == [(), (7,), (7, 8)]
    assert [(row.position, row.num_output) for (row,) in told] == [(3, 0), (4, 1), (5, 2)]
    assert all(row.prompt.tokens == {5, 7} for (row,) in told)
