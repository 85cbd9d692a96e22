"""Schemas that the library crashes at, or keeps to by the wrong answers."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from lookhear.engine.core.request import RequestError
from lookhear.engine.sampling.call_rules import CallRules, ToolRule
from lookhear.engine.sampling.grammar import GrammarCompiler, JsonGrammar
from lookhear.engine.tokenizers.qwen import QwenTokenizer
from tests.engine.sampling.test_grammar import (
    allowed,
    ends,
    grammars,
    tokenizer,
    vocab,
)

__all__ = ["grammars", "tokenizer"]  # fixtures
Schema = dict[str, Any]


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
