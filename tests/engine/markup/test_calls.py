"""Calls in a text that nothing keeps to a form: what is none is text, wherever it is cut."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lookhear.engine.markup.call_family import CallFamily
from lookhear.engine.markup.calls import CallArguments, CallBegun, CallReader
from lookhear.engine.markup.families import FAMILIES, family_of
from lookhear.engine.markup.hermes import HERMES
from lookhear.engine.markup.mistral import MISTRAL

Found = list[tuple[str, ...]]


def read(family: CallFamily, text: str, cuts: list[int]) -> Found:
    """What is said and called, in order, texts and arguments joined."""
    reader = CallReader(family, ["f", "g"], is_sure=False)
    places = [0, *sorted(cut % (len(text) + 1) for cut in cuts), len(text)]
    pieces = [p for a, b in zip(places, places[1:], strict=False) for p in reader.push(text[a:b])]
    found: Found = []
    for piece in [*pieces, *reader.flush()]:
        match piece:
            case CallBegun(name):
                found.append((name, ""))
            case CallArguments(more):
                found[-1] = (found[-1][0], found[-1][1] + more)
            case str() if found and len(found[-1]) == 1:
                found[-1] = (found[-1][0] + piece,)
            case _:
                found.append((piece,))
    return found


CUTS = st.lists(st.integers(0, 999), max_size=9)
HERMES_CALL = '<tool_call>\n{"name": "f", "arguments": {"a": "}"}}\n</tool_call>'

F_AND_G = [("f", "{}"), ("g", "{}")]


@given(CUTS)
@pytest.mark.parametrize(
    ("family", "text", "found"),
    [
        (HERMES, HERMES_CALL, [("f", '{"a": "}"}')]),
        (HERMES, f"So: {HERMES_CALL}\n{HERMES_CALL}", [("So:",), *[("f", '{"a": "}"}')] * 2]),
        (HERMES, '<tool_call>{"name":"g"}</tool_call>', [("g", "{}")]),
        (HERMES, '<tool_call>{"name":"g","arguments":null}</tool_call>\n', [("g", "{}")]),
        (HERMES, '<tool_call>{"name":"g","arguments":"{}"}</tool_call>', [("g", "{}")]),
        (MISTRAL, '[TOOL_CALLS]f[ARGS]{"a": [1]}', [("f", '{"a": [1]}')]),
        (MISTRAL, 'a [TOOL_CALLS]f[ARGS]{}[TOOL_CALLS]g[ARGS]{}', [("a",), *F_AND_G]),
    ],
)  # fmt: skip
def test_calls_are_found_wherever_the_text_is_cut(
    family: CallFamily, text: str, found: Found, cuts: list[int]
) -> None:
    assert read(family, text, cuts) == found


@given(CUTS)
@pytest.mark.parametrize(
    "text",
    [
        'no \n<tool_call>\n{"name": "f", "arguments": {"a": }}\n</tool_call> more',
        '<tool_call>{"name": "unknown", "arguments": {}}</tool_call>',
        '<tool_call>{"name": "f", "arguments": [1]}</tool_call>',
        '<tool_call>{"name": "f", "arguments": {"a": NaN}}</tool_call>',
        'cut off <tool_call>{"name": "f", "arguments": {"a"',
        "<tool_cal",
        "a < b  ",
    ],
)
def test_what_is_no_call_is_text_and_whole(text: str, cuts: list[int]) -> None:
    assert read(HERMES, text, cuts) == [(text,)]


@given(st.sampled_from(FAMILIES), st.text('<tol_cal>{}[TOOL_CALLS]ARGS": \n', max_size=60), CUTS)
@example(HERMES, "<tool_call><tool_call>", [3])
def test_any_text_is_read_alike_wherever_it_is_cut(
    family: CallFamily, text: str, cuts: list[int]
) -> None:
    found = read(family, text, cuts)
    assert found == read(family, text, [])
    if family.begin not in text:
        assert found == ([(text,)] if text else [])
    for call in found:
        assert len(call) == 1 or isinstance(json.loads(call[1]), dict)


BEGINNINGS = {
    "blank": "{begin}",
    "head": "{begin}{head}",
    "name": "{begin}{head}f",
    "quote": '{begin}{head}f"',
    "arguments": "{begin}{before}",
    "object": "{begin}{before}{{",
    "whole": "{begin}{before}{{}}",
    "tail": "{begin}{before}{{}}}}",
}


@pytest.mark.timeout(60)  # hours, where parts of a pattern share the blank space in all ways
@pytest.mark.parametrize("run", [" ", "\n", '"', "{", "}", "} "], ids=repr)
@pytest.mark.parametrize("beginning", BEGINNINGS)
@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_long_runs_of_anything_are_read_at_once(
    family: CallFamily, beginning: str, run: str
) -> None:
    call = BEGINNINGS[beginning].format(
        begin=family.begin, head=family.head, before=family.before("f")
    )
    text = f"{call}{run * 100_000}x{family.end}"
    assert read(family, text, []) == [(text,)]


def test_blank_space_around_arguments_is_not_of_them() -> None:
    text = '<tool_call>{"name": "f" , "arguments" : \n {"a": 1} \n } </tool_call>'
    assert read(HERMES, text, []) == [("f", '{"a": 1}')]
    assert read(HERMES, text.replace('{"a": 1}', ""), []) == [("f", "{}")]


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_what_is_cut_off_of_a_forced_call_is_not_said(family: CallFamily) -> None:
    text = family.written("f", '{"a": "}"}') + family.between + family.written("g", "{}")
    for end in range(len(text)):
        reader = CallReader(family, ["f", "g"], is_sure=True, is_forced=True)
        pieces = [*reader.push(text[:end]), *reader.flush()]
        assert not [piece for piece in pieces if isinstance(piece, str)]


def test_a_family_is_found_by_its_template() -> None:
    assert family_of("{%- if tools %}<tool_call>{%- endif %}") is HERMES
    assert family_of("{{ '[TOOL_CALLS]' + name + '[ARGS]' }}") is MISTRAL
    assert family_of("no tools") is HERMES
