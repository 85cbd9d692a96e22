"""Schemas that the library hangs or crashes at, or keeps to by the wrong answers."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from lookhear.engine.core.request import RequestError
from lookhear.engine.sampling import grammar
from lookhear.engine.sampling.call_rules import CallRules, ToolRule
from lookhear.engine.sampling.grammar import GrammarCompiler, JsonGrammar
from lookhear.engine.sampling.joined_patterns import patterns_at_once
from lookhear.engine.tokenizers.qwen import QwenTokenizer
from tests.engine.sampling.test_grammar import (
    allowed,
    ends,
    grammars,
    tokenizer,
    vocab,
    wander,
)

__all__ = ["grammars", "tokenizer"]  # fixtures
Schema = dict[str, Any]
LARGEST = 2**53 - 1


def takes(compiled: JsonGrammar, tokenizer: QwenTokenizer, text: str) -> bool:
    """Whether it is a whole answer."""
    matcher = compiled.start()
    for token in tokenizer.encode(text):
        if not matcher.allowed([token]):
            return False
        matcher.accept(token)
    bits = np.zeros(-(-vocab(tokenizer) // 32), np.int32)
    matcher.fill(bits)
    return bool(set(ends(tokenizer)) & set(allowed(bits, vocab(tokenizer))))


# --- numbers -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"const": -(2**63)}, "const and enum"),
        ({"const": 1 - 2**63}, "const and enum"),
        ({"const": 2**53}, "const and enum"),
        ({"enum": [1, {"a": [10**30]}]}, "const and enum"),
        ({"$ref": "#/odd", "odd": {"const": [-(2**63)]}}, "const and enum"),
        ({"type": "integer", "minimum": 2**53}, "bounds"),
        ({"type": "integer", "exclusiveMinimum": 1e300}, "bounds"),
        ({"type": ["integer", "null"], "maximum": -(2**64)}, "bounds"),
        ({"items": {"exclusiveMaximum": -(2**53)}}, "bounds"),
        ({"type": "number", "minimum": 10**18 + 1}, "bounds"),
        ({"type": "number", "maximum": -1e19}, "bounds"),
        (
            {
                "allOf": [
                    {"type": "integer"},
                    {"type": "number", "minimum": -1e99, "maximum": -1e98},
                ]
            },
            "bounds",
        ),
    ],
    ids=str,
)
def test_numbers_that_doubles_do_not_tell_apart_are_refused(
    grammars: GrammarCompiler, schema: Schema, words: str
) -> None:
    for text in (json.dumps(schema), json.dumps({"type": "array", "items": schema, "minItems": 1})):
        with pytest.raises(RequestError, match=f"schema: expected .*{words}"):
            grammars.compile(text)


def test_so_they_are_in_a_tool(grammars: GrammarCompiler) -> None:
    schema = {"type": "object", "properties": {"id": {"enum": [-(2**63)]}}}
    tool = ToolRule("f", 0, "(", json.dumps(schema), ")", is_strict=True)
    with pytest.raises(RequestError, match=r"tools\[0\].function.parameters: expected whole"):
        grammars.compile_calls(CallRules("call", ",", (tool,)))


@pytest.mark.parametrize(
    ("schema", "fits", "breaks"),
    [
        ({"exclusiveMinimum": 0, "maximum": 0.5}, ["0.5", "0.01"], ["0", "0.0", "0.51", "-0"]),
        ({"exclusiveMinimum": 0, "exclusiveMaximum": 0.5}, ["0.49"], ["0", "0.5", "0.50"]),
        ({"exclusiveMinimum": 1, "maximum": 1.5}, ["1.5", "1.01"], ["1", "1.0", "1.00"]),
        ({"minimum": -1.5, "exclusiveMaximum": -1}, ["-1.5", "-1.01"], ["-1", "-1.0"]),
        ({"minimum": -0.5, "exclusiveMaximum": 0}, ["-0.5", "-0.01"], ["0", "0.1", "-0"]),
        ({"allOf": [{"exclusiveMinimum": 0}, {"maximum": 0.5}]}, ["0.5"], ["0", "0.0"]),
        ({"exclusiveMinimum": 0}, ["1", "0.5"], ["0", "-1"]),
        ({"exclusiveMinimum": 0, "exclusiveMaximum": 1}, ["0.5"], ["0", "1", "1.0"]),
    ],
    ids=str,
)
def test_bounds_of_fractions_are_kept_to(
    grammars: GrammarCompiler,
    tokenizer: QwenTokenizer,
    schema: Schema,
    fits: list[str],
    breaks: list[str],
) -> None:
    compiled = grammars.compile(json.dumps({"type": "number", **schema}))
    assert [text for text in fits if not takes(compiled, tokenizer, text)] == []
    assert [text for text in breaks if takes(compiled, tokenizer, text)] == []


@pytest.mark.parametrize(
    "bounds",
    [
        {"minimum": -(2**63), "maximum": 2**63 - 1},
        {"exclusiveMinimum": -(10**400), "exclusiveMaximum": 10**400},
        {"minimum": -1e300, "maximum": 2**53 + 3},
    ],
    ids=["64 bits", "any", "odd"],
)
def test_bounds_beyond_what_doubles_tell_apart_are_those_of_doubles(
    grammars: GrammarCompiler, tokenizer: QwenTokenizer, bounds: Schema
) -> None:
    compiled = grammars.compile(json.dumps({"type": "integer", **bounds}))
    for number in (0, LARGEST - 1, 1 - LARGEST):
        assert takes(compiled, tokenizer, str(number))
    for number in (2**53 + 4, -(2**53) - 4, 2**63, -(2**63) - 1):
        assert not takes(compiled, tokenizer, str(number))


def test_bounds_of_fractions_may_be_of_any_size(
    grammars: GrammarCompiler, tokenizer: QwenTokenizer
) -> None:
    schema = {"type": "number", "minimum": -1e300, "exclusiveMaximum": 1e17}
    compiled = grammars.compile(json.dumps(schema))
    assert takes(compiled, tokenizer, "-0.5") and takes(compiled, tokenizer, f"{10**17 - 1}")
    assert not takes(compiled, tokenizer, f"{10**17}")


def test_what_an_answer_may_be_is_no_schema(
    grammars: GrammarCompiler, tokenizer: QwenTokenizer
) -> None:
    value = {"exclusiveMinimum": 0, "maximum": 0.5, "minimum": -1e16}
    compiled = grammars.compile(json.dumps({"const": value}))
    tokens, has_ended = wander(compiled, tokenizer, 0)
    assert has_ended and json.loads(tokenizer.decode_bytes(tokens)) == value


# --- chains --------------------------------------------------------------------------------------


def chain(count: int, link: Callable[[Schema], Schema]) -> str:
    """Schemas, each of which refers to the next one."""
    links = {str(i): link({"$ref": f"#/d/{i + 1}"}) for i in range(count)}
    return json.dumps({"$ref": "#/d/0", "d": {**links, str(count): {"type": "null"}}})


def test_a_long_chain_of_references_is_a_schema(
    grammars: GrammarCompiler, tokenizer: QwenTokenizer
) -> None:
    compiled = grammars.compile(chain(1700, lambda other: {"items": other}))
    assert takes(compiled, tokenizer, "[[[]]]")


@pytest.mark.parametrize("keyword", ["allOf", "anyOf", "oneOf"])
def test_a_long_chain_for_one_value_is_refused(grammars: GrammarCompiler, keyword: str) -> None:
    with pytest.raises(RequestError, match="schema: expected .*intersection"):
        grammars.compile(chain(1700, lambda other: {keyword: [other]}))


# --- patterns ------------------------------------------------------------------------------------


def some(count: int) -> list[Schema]:
    return [{"type": "string", "pattern": f"a{i}"} for i in range(count)]


def beside_references(count: int) -> Schema:
    definitions = {
        f"a{i}": {**each, "$ref": f"#/$defs/a{i + 1}"} for i, each in enumerate(some(count))
    }
    last = {f"a{count}": {"type": "string"}}
    return {"$ref": "#/$defs/a0", "$defs": {**definitions, **last}}


def objects(count: int, keyword: str = "properties") -> Schema:
    return {"allOf": [{"type": "object", keyword: {"b": each}} for each in some(count)]}


JOINED: dict[str, Callable[[int], Schema]] = {
    "all of": lambda count: {"allOf": some(count)},
    "below each other": lambda count: {"items": {"allOf": [{"allOf": some(count)}]}},
    "references": lambda count: {
        "allOf": [{"$ref": f"#/d/{i}"} for i in range(count)],
        "d": some(count),
    },
    "beside references": beside_references,
    "of one name": objects,
    "of one pattern of names": lambda count: objects(count, "patternProperties"),
    "of any name": lambda count: {
        "allOf": [{"type": "object", "additionalProperties": each} for each in some(count)]
    },
    "of one place": lambda count: {
        "allOf": [
            {"type": "array", **({"items": each} if i % 2 else {"prefixItems": [each]})}
            for i, each in enumerate(some(count))
        ]
    },
    "of branches": lambda count: {"allOf": [{"anyOf": [each]} for each in some(count)]},
    "formats": lambda count: {"allOf": [{"format": "date"}, *some(count - 1)]},
}


@pytest.mark.parametrize("name", JOINED)
def test_patterns_that_one_string_has_to_match_are_few(
    grammars: GrammarCompiler, name: str
) -> None:
    assert [patterns_at_once(JOINED[name](count)) for count in (9, 24)] == [9, 24]
    with pytest.raises(RequestError, match="at most 8 values of pattern and format"):
        grammars.compile(json.dumps(JOINED[name](40)))


@pytest.mark.parametrize(
    "reference", ["json-schema:///#/d", "#anchor", "https://elsewhere"], ids=str
)
def test_references_that_are_not_plain_count_as_leading_to_all(reference: str) -> None:
    schema = {"$ref": reference, "d": {"allOf": some(20), "$anchor": "anchor"}}
    assert patterns_at_once(schema) == 20


def test_patterns_of_other_strings_do_not_count() -> None:
    dates: Schema = {f"at{i}": {"type": "string", "format": "date-time"} for i in range(30)}
    node: Schema = {"type": "object", "properties": {**dates, "next": {"$ref": "#/$defs/node"}}}
    more: Schema = {"type": "object", "properties": {"to": {"$ref": "#/$defs/node"}, **dates}}
    variants = {"anyOf": [*some(20), {"$ref": "#/$defs/node"}]}
    definitions = {"node": node, "more": {"allOf": [{"$ref": "#/$defs/node"}, more]}}
    schema = {"anyOf": [{"$ref": "#/$defs/more"}, {"items": variants}], "$defs": definitions}
    assert patterns_at_once(json.loads(json.dumps(schema))) == 2  # nothing in it is twice the same
    assert patterns_at_once({"type": "object", "patternProperties": dates}) == 1
    assert patterns_at_once({"enum": some(30)}) == 0


def test_what_was_refused_once_is_not_looked_at_again(
    grammars: GrammarCompiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = json.dumps({"type": "string", "pattern": "(refused"})
    with pytest.raises(RequestError) as first:
        grammars.compile(schema)
    monkeypatch.delattr(grammar, "_parsed")
    with pytest.raises(RequestError) as second:
        grammars.compile(schema)
    assert str(second.value) == str(first.value)
