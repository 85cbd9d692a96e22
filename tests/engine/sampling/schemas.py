"""JSON Schemas that make answers end, and whether a value keeps to one."""

from __future__ import annotations

import re
from typing import Any

from hypothesis import strategies as st

Schema = dict[str, Any]

NAMES = st.text('aé "\\\n{', min_size=1, max_size=3)
SCALARS = st.none() | st.booleans() | st.integers(-99, 99) | st.text('ab ü"\\\t', max_size=4)


def _integers(low: int, more: int) -> Schema:
    return {"type": "integer", "minimum": low, "maximum": low + more}


def _strings(least: int, more: int) -> Schema:
    return {"type": "string", "minLength": least, "maxLength": least + more}


LEAVES: st.SearchStrategy[Schema] = st.one_of(
    st.sampled_from([{"type": "null"}, {"type": "boolean"}]),
    st.builds(_integers, st.integers(-30, 30), st.integers(0, 200)),
    st.builds(_strings, st.integers(0, 2), st.integers(0, 3)),
    st.lists(SCALARS, min_size=1, max_size=4, unique_by=repr).map(lambda some: {"enum": some}),
    SCALARS.map(lambda value: {"const": value}),
    st.just({"type": "string", "pattern": "^[a-c]{1,3}-?x$"}),
)


@st.composite
def _objects(draw: st.DrawFn, inner: st.SearchStrategy[Schema]) -> Schema:
    properties = draw(st.dictionaries(NAMES, inner, max_size=3))
    needed = draw(st.sets(st.sampled_from(sorted(properties)))) if properties else set()
    return {
        "type": "object",
        "properties": properties,
        "required": sorted(needed),
        "additionalProperties": False,
    }


@st.composite
def _arrays(draw: st.DrawFn, inner: st.SearchStrategy[Schema]) -> Schema:
    least = draw(st.integers(0, 1))
    most = least + draw(st.integers(0, 1))
    return {"type": "array", "items": draw(inner), "minItems": least, "maxItems": most}


SCHEMAS: st.SearchStrategy[Schema] = st.recursive(
    LEAVES,
    lambda inner: (
        _objects(inner)
        | _arrays(inner)
        | st.lists(inner, min_size=1, max_size=2).map(lambda some: {"anyOf": some})
    ),
    max_leaves=5,
)
"""Answers of a few hundred bytes at most."""


def keeps_to(value: Any, schema: Schema) -> bool:
    """Of the keywords above."""
    if "anyOf" in schema:
        return any(keeps_to(value, one) for one in schema["anyOf"])
    if "enum" in schema or "const" in schema:
        allowed = schema.get("enum", [schema.get("const")])
        return any(type(value) is type(one) and value == one for one in allowed)
    match schema["type"]:
        case "null":
            return value is None
        case "boolean":
            return isinstance(value, bool)
        case "integer":
            whole = type(value) is int
            return whole and bool(schema["minimum"] <= value <= schema["maximum"])
        case "string" if "pattern" in schema:
            inside = schema["pattern"].removeprefix("^").removesuffix("$")
            return isinstance(value, str) and re.fullmatch(inside, value) is not None
        case "string":
            fits = isinstance(value, str)
            return fits and bool(schema["minLength"] <= len(value) <= schema["maxLength"])
        case "array":
            if not isinstance(value, list):
                return False
            fits = schema["minItems"] <= len(value) <= schema["maxItems"]
            return fits and all(keeps_to(one, schema["items"]) for one in value)
        case _:
            if not isinstance(value, dict) or set(schema["required"]) - set(value):
                return False
            known = schema["properties"]
            return all(name in known and keeps_to(value[name], known[name]) for name in value)
