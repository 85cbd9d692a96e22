"""However much a model would like to go on, JSON is ended before its tokens are used up."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lookhear.engine.sampling.brevity import EndingTokens, TokenBudget
from lookhear.engine.sampling.grammar import GrammarCompiler, JsonGrammar, Pattern, Thinking
from lookhear.engine.tokenizers.qwen import QwenTokenizer
from tests.engine.sampling.test_grammar import allowed, ends, grammars, tokenizer, vocab

__all__ = ["grammars", "tokenizer"]  # fixtures

STRINGS = {
    "type": "object",
    "properties": {name: {"type": "string"} for name in ("title", "text", "author")},
    "required": ["title", "text", "author"],
    "additionalProperties": False,
}
NUMBERS = {
    "type": "object",
    "properties": {"count": {"type": "integer"}, "share": {"type": "number"}, "is": {"const": 1}},
    "required": ["count", "share", "is"],
    "additionalProperties": False,
}
SCHEMAS = [
    NUMBERS,
    {"type": "string"},
    {"type": "object"},
    {"type": "array", "items": {"type": "string"}},
    {"type": "array", "items": {"type": "number"}},
    {"type": "array", "items": STRINGS},
    STRINGS,
    {},
    {
        "$defs": {"node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}},
        "$ref": "#/$defs/node",
    },
]


def stubborn(
    grammar: JsonGrammar, tokenizer: QwenTokenizer, seed: int, budget: int | None, most: int
) -> list[int] | None:
    """Tokens of a model that ends nothing as long as it can go on; None: it was cut off."""
    rng, matcher, size = random.Random(seed), grammar.start(budget), vocab(tokenizer)
    tokens: list[int] = []
    for _ in range(most):
        bits = np.zeros(-(-size // 32), np.int32)
        matcher.fill(bits)
        may = allowed(bits, size)
        on = [t for t in may if t not in ends(tokenizer)]
        marks = (b'"', b"]", b"}", b",")
        on = [t for t in on if tokenizer.decode_bytes([t])[:1] not in marks] or on
        on = [t for t in on if t not in tokenizer.added.values()] or on
        if not on:
            return tokens
        token = rng.choice(on)
        matcher.accept(token)
        tokens.append(token)
    return None


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(SCHEMAS), st.integers(0, 99), st.sampled_from([200, 500]))
def test_json_is_ended_in_time(
    grammars: GrammarCompiler, tokenizer: QwenTokenizer, schema: object, seed: int, budget: int
) -> None:
    tokens = stubborn(grammars.compile(json.dumps(schema)), tokenizer, seed, budget, budget)
    assert tokens is not None
    json.loads(tokenizer.decode_bytes(tokens))
    assert len(tokens) < budget


def test_without_a_budget_nobody_is_hurried(
    grammars: GrammarCompiler, tokenizer: QwenTokenizer
) -> None:
    assert stubborn(grammars.compile('{"type":"string"}'), tokenizer, 0, None, 500) is None


@pytest.mark.parametrize("thinking", [Thinking.OPEN, Thinking.FREE])
def test_thinking_is_not_hurried_and_leaves_a_share_to_the_answer(
    grammars: GrammarCompiler, tokenizer: QwenTokenizer, thinking: Thinking
) -> None:
    grammar = grammars.compile('{"type":"string"}', thinking)
    matcher, size = grammar.start(400), vocab(tokenizer)
    thought = tokenizer.encode("a" * 320)
    begin, end = tokenizer.added["<think>"], tokenizer.added["</think>"]
    before = [begin] if thinking is Thinking.FREE else []
    rest = 400 - len(before) - len(thought) - 1
    assert rest > 0
    bits = np.zeros(-(-size // 32), np.int32)
    for token in [*before, *thought, end, *tokenizer.encode('"')]:
        matcher.fill(bits)
        assert token in allowed(bits, size)
        matcher.accept(token)
    written = 1
    while True:
        matcher.fill(bits)
        may = allowed(bits, size)
        if all(tokenizer.decode_bytes([token])[:1] == b'"' for token in may):
            break
        matcher.accept(tokenizer.encode("a")[0])
        written += 1
    assert written == -(-3 * rest // 4)


def test_patterns_are_not_hurried(grammars: GrammarCompiler, tokenizer: QwenTokenizer) -> None:
    grammar = grammars.compile(Pattern("[a-z]*"))
    assert stubborn(grammar, tokenizer, 0, 100, 300) is None


def test_what_ends_nothing_is_left_alone() -> None:
    words = [b"a", b'"', b"]", b'",', b"}", b"<end>", b", "]
    endings = EndingTokens(words, special=[5], end_tokens=[5])

    def kept(*tokens: int) -> list[int]:
        bits = np.array([sum(1 << token for token in tokens)], np.int32)
        endings.keep(bits)
        return allowed(bits, 32)

    assert kept(0) == [0]
    assert kept(0, 2, 4) == [2, 4]
    assert kept(0, 2, 6) == [2]
    assert kept(0, 6) == [6]
    assert kept(0, 1, 2, 3) == [1, 3]
    assert kept(0, 1, 2, 5) == [5]


def test_a_budget_counts_from_where_the_answer_began() -> None:
    assert not TokenBudget(100, used=74).is_nearly_spent
    assert TokenBudget(100, used=75).is_nearly_spent
    assert not TokenBudget(100, used=75, thought=60).is_nearly_spent
    assert TokenBudget(100, used=90, thought=60).is_nearly_spent
