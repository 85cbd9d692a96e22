"""Arguments of calls as clients give them back, and which tools are to be called."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookhear.gateway.checks.tools import readable_arguments, tool_choice

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), VALUES, max_size=4), st.booleans(), st.data())
def test_what_can_be_read_of_arguments_that_were_cut_off(
    given: dict[str, Any], is_ascii: bool, data: st.DataObject
) -> None:
    whole = json.dumps(given, ensure_ascii=is_ascii)
    assert readable_arguments(whole) == whole
    cut = whole[: data.draw(st.integers(1, len(whole) - 1))]
    read = json.loads(readable_arguments(cut))
    assert list(read) == list(given)[: len(read)]


@pytest.mark.parametrize("text", ["a", "[1", "1", '"a', "{a", '{"a":NaN', '{"a":' * 99])
def test_what_is_no_object_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        readable_arguments(text)


def test_what_is_behind_an_object_is_not_read() -> None:
    assert readable_arguments('{"a":1}b') == '{"a": 1}'


def test_no_arguments_are_none() -> None:
    assert readable_arguments("") == "{}"


def allowed(levels: int) -> dict[str, Any]:
    """So many choices, each of the next, the last of a function."""
    choice: dict[str, Any] = {"type": "function", "name": "f"}
    for _ in range(levels):
        choice = {"type": "allowed_tools", "tools": [choice]}
    return choice


def test_a_choice_is_no_deeper_than_a_schema() -> None:
    assert tool_choice(allowed(1)).names == ("f",)
    with pytest.raises(ValueError, match="expected at most 64 levels of nesting"):
        tool_choice(allowed(600))


def test_a_choice_can_be_told_again() -> None:
    with pytest.raises(ValueError, match="not finite"):
        tool_choice({"type": "function", "name": "f", "x": float("inf")})
