"""What an error message shows of a value is its beginning, and costs no more than that."""

from __future__ import annotations

import json
from typing import Annotated, Any

import pytest
from hypothesis import given, settings
from pydantic import Field, ValidationError

from lookhear.gateway.checks.checks import Text, WireModel, describe, shown
from tests.gateway.checks.test_outline import values

SHOWN = 80


@settings(deadline=None, max_examples=200)
@given(values)
def test_the_beginning_is_that_of_the_whole(value: object) -> None:
    whole = json.dumps(value, ensure_ascii=False)
    said = shown(value)
    if len(whole) <= SHOWN:
        assert said == whole
    else:
        assert said.startswith(whole[:SHOWN] + "…")


def test_large_values_are_not_written_out() -> None:
    class Counted(list[int]):
        """Tells how many of its entries were looked at."""

        looks = 0

        def __iter__(self):  # type: ignore[no-untyped-def]
            for entry in super().__iter__():
                self.looks += 1
                yield entry

    large = Counted([7] * 1_000_000)
    assert shown({"a": [large]}).startswith('{"a": [[7, 7, 7')
    assert 0 < large.looks <= SHOWN + 1


class Lengths(WireModel):
    """Fields of bounded length."""

    text: Annotated[Text, Field(min_length=1, max_length=5)] | None = None
    plain: Annotated[str, Field(min_length=1, max_length=5)] | None = None
    entries: Annotated[list[int], Field(min_length=1, max_length=2)] | None = None
    names: Annotated[dict[str, int], Field(max_length=1)] | None = None


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"text": "abcdef"}, 'text: expected at most 5 characters, got 6: "abcdef"'),
        ({"text": ""}, 'text: expected at least 1 characters, got 0: ""'),
        ({"plain": "abcdef"}, 'plain: expected at most 5 characters, got 6: "abcdef"'),
        ({"plain": ""}, 'plain: expected at least 1 characters, got 0: ""'),
        ({"entries": [1, 2, 3]}, "entries: expected at most 2 entries, got 3: [1, 2, 3]"),
        ({"entries": []}, "entries: expected at least 1 entries, got 0: []"),
        ({"names": {"a": 1, "b": 2}}, 'names: expected at most 1 entries, got 2: {"a": 1, "b": 2}'),
    ],
)
def test_lengths_are_told_in_our_words(given: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Lengths.model_validate(given)
    assert describe(caught.value)[0] == told
