"""What an error message shows of a value is its beginning, and costs no more than that."""

from __future__ import annotations

import json

from hypothesis import given, settings

from lookhear.gateway.checks.checks import shown
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
