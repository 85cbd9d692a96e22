"""Large JSON is what the usual parser says it is, or is refused before it costs anything."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lookhear.gateway.checks import outline as outlines
from lookhear.gateway.checks.outline import MAX_VALUES, TooMuchJson, outline, parse_json

MOST = 200
LONG = 8  # so that generated strings are cut out


@pytest.fixture(autouse=True)
def _everything_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outlines, "SMALL", 0)
    monkeypatch.setattr(outlines, "LONG", LONG)
    monkeypatch.setattr(outlines, "AT_ONCE", 3)


texts = st.one_of(
    st.text(max_size=30),
    st.text("ab/\\\"'\n,:[{N ", max_size=40),
    st.integers(0, 60).map(lambda n: "a/" * n),
)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(texts, inner, max_size=5),
    max_leaves=20,
)


def usual(data: bytes) -> Any:
    """As the standard library reads it, but for numbers that JSON does not have."""

    def refuse(name: str) -> float:
        raise ValueError(name)

    return json.loads(data, parse_constant=refuse)


def refuse(name: str) -> float:
    raise ValueError(name)


@settings(deadline=None, max_examples=150)
@given(values, st.booleans(), st.booleans(), st.sampled_from(["utf-8", "utf-16", "utf-32-le"]))
def test_what_is_json_is_read_as_ever(
    value: Any, is_ascii: bool, escapes_slashes: bool, encoding: str
) -> None:
    text = json.dumps(value, ensure_ascii=is_ascii)
    if escapes_slashes:
        text = text.replace("/", "\\/")
    data = text.encode(encoding, "surrogatepass")
    assert parse_json(data) == parse_json(data, len(data)) == usual(data) == value


@settings(deadline=None, max_examples=300)
@given(st.text('{}[],:"\\/uab0N \n', max_size=60).map(str.encode) | st.binary(max_size=40))
@example(b'["aaaaaaaaaaaa" 1]')
@example(b'{"aaaaaaaaaaaaa" \t: 1}')
@example(b'["aaaaaaaaaaaa\\"]')
@example(b'["aaaaaaaaaaaa\n"]')
@example(b'["aaaaaaaaaaaa", NaN]')
@example(b'-"aaaaaaaaaaaa"')
@example(b'N"aaaaaaaaaaaa"N')
def test_what_is_no_json_is_none(data: bytes) -> None:
    try:
        expected = usual(data)
    except ValueError:
        with pytest.raises(ValueError):
            parse_json(data, constant=refuse)
    else:
        assert parse_json(data, constant=refuse) == expected


@settings(deadline=None, max_examples=100)
@given(values.map(lambda value: json.dumps([value] * 7).encode()))
def test_what_is_let_through_is_small(data: bytes) -> None:
    try:
        cut = outline(data, MOST)
    except TooMuchJson:
        assert len(data) > MOST
        return
    assert len(cut.text) <= MOST
    assert len(data) >= len(cut.text) - 3 * len(cut.strings) + sum(map(len, cut.strings))
    assert all(text.isascii() for text in cut.strings)


def counted(value: Any) -> int:
    """Values and names."""
    if isinstance(value, list):
        return 1 + sum(map(counted, value))
    if isinstance(value, dict):
        return 1 + sum(1 + counted(entry) for entry in value.values())
    return 1


@settings(deadline=None, max_examples=100)
@given(values, st.integers(1, 30))
def test_values_are_never_more_than_counted(value: Any, most: int) -> None:
    data = json.dumps(value).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(outlines, "MAX_VALUES", most)
        try:
            read = parse_json(data)
        except TooMuchJson:
            assert 2 * counted(value) > most, "an empty array may be counted twice"
        else:
            assert counted(read) <= most


@pytest.mark.parametrize(
    "data",
    [
        b"[" + b"[]," * (MAX_VALUES + 1) + b"[]]",
        b"[" * 20_000_000,
        b'"' * 20_000_000,
        b'["' + b'","' * 7_000_000 + b'"]',
        b'{"a":"' + b"\\n" * 10_000_000 + b'"}',
        b'{"a":"' + b'\\"' * 10_000_000 + b'"}',
        b'{"a":"' + b"\\\\" * 10_000_000 + b'"}',
        b'{"' + b"a" * 20_000_000 + b'":1}',
        b"[" + b"1" * 20_000_000 + b"]",
        b" " * 20_000_000 + b"1",
        '{"a":"\U0001f600'.encode() + b"a" * 20_000_000 + b'"}',
    ],
    ids=lambda data: repr(data[:12]),
)
def test_what_would_cost_more_than_it_weighs_is_refused(
    data: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    with pytest.raises(TooMuchJson):
        parse_json(data, 4 * 1024 * 1024)


def test_media_are_no_part_of_the_limit() -> None:
    picture = "data:image/png;base64," + "iVBO/Rw0" * 100_000
    for text in (json.dumps({"url": picture}), json.dumps({"url": picture}).replace("/", "\\/")):
        assert parse_json(text.encode(), MOST) == {"url": picture}
