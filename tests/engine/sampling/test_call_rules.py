"""Calls of tools under a grammar: whatever is chosen, calls are whole and keep to their schemas."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lookhear.engine.markup.call_family import CallFamily
from lookhear.engine.markup.calls import CallArguments, CallBegun, CallReader
from lookhear.engine.markup.families import FAMILIES
from lookhear.engine.sampling.call_rules import CallRules, ToolRule
from lookhear.engine.sampling.grammar import GrammarCompiler, JsonGrammar
from lookhear.engine.tokenizers.qwen import QwenTokenizer
from tests.engine.sampling.schemas import SCHEMAS, Schema, keeps_to
from tools.random_checkpoints.qwen3 import write_qwen_tokenizer

ADDED = {"tokens": ("<think>", "</think>", "</tool_call>", "[TOOL_CALLS]"), "": ()}


@pytest.fixture(scope="module", params=list(ADDED), ids=["tags are tokens", "tags are spelt"])
def tokenizer(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> QwenTokenizer:
    folder: Path = tmp_path_factory.mktemp("tokens")
    write_qwen_tokenizer(folder, *ADDED[request.param])
    return QwenTokenizer.from_folder(folder)


@pytest.fixture(scope="module")
def grammars(tokenizer: QwenTokenizer) -> GrammarCompiler:
    return GrammarCompiler(tokenizer, max(tokenizer.added.values()) + 1, ends(tokenizer))


def ends(tokenizer: QwenTokenizer) -> tuple[int, ...]:
    return tokenizer.added["<|im_end|>"], tokenizer.added["<|endoftext|>"]


def rules(family: CallFamily, schemas: list[Schema], **how: bool) -> CallRules:
    tools = tuple(
        ToolRule(f"tool_{i}", i, family.before(f"tool_{i}"), json.dumps(schema), family.tail)
        for i, schema in enumerate(schemas)
    )
    return CallRules(family.begin, family.between, tools, **how)


def wander(
    grammar: JsonGrammar, tokenizer: QwenTokenizer, seed: int, prefer: str = ""
) -> tuple[str, bool]:
    """A text of tokens chosen evenly among what may come, and whether it ended. prefer: what is
    written first, as far as it may come."""
    rng, matcher, vocab = random.Random(seed), grammar.start(), max(tokenizer.added.values()) + 1
    tokens: list[int] = []
    wanted = list(prefer.encode())
    whole = tokenizer.added.get(prefer)
    for _ in range(3000):
        bits = np.full(-(-vocab // 32), -1, np.int32)
        matcher.fill(bits)
        flat = np.unpackbits(bits.view(np.uint8), bitorder="little")
        may = np.flatnonzero(flat).tolist()
        token = rng.choice(may)
        if whole is not None and not tokens:
            token = whole
        elif wanted:
            token = next(t for t in may if tokenizer.decode_bytes([t]) == bytes(wanted[:1]))
            del wanted[:1]
        if whole is not None:
            wanted = []
        assert token in may
        if token in ends(tokenizer):
            return tokenizer.decode_bytes(tokens).decode(), True
        matcher.accept(token)
        tokens.append(token)
    return tokenizer.decode_bytes(tokens).decode(errors="ignore"), False


def read(
    text: str, family: CallFamily, names: list[str], cuts: list[int], *, is_sure: bool
) -> tuple[str, list[list[str]]]:
    """What is said, and (name, arguments) of each call."""
    reader = CallReader(family, names, is_sure=is_sure)
    said, calls = "", list[list[str]]()
    places = [0, *sorted(cut % (len(text) + 1) for cut in cuts), len(text)]
    pieces = [p for a, b in zip(places, places[1:], strict=False) for p in reader.push(text[a:b])]
    for piece in [*pieces, *reader.flush()]:
        match piece:
            case str():
                said += piece
            case CallBegun(name):
                calls.append([name, ""])
            case CallArguments(more):
                calls[-1][1] += more
    return said, calls


OBJECTS = st.lists(
    st.dictionaries(st.sampled_from("abc"), SCHEMAS, max_size=2), min_size=1, max_size=3
)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
@settings(max_examples=25, deadline=None)
@given(
    OBJECTS,
    st.integers(0, 99),
    st.booleans(),
    st.booleans(),
    st.lists(st.integers(0, 5000), max_size=8),
)
def test_any_walk_makes_calls_that_keep_to_their_schemas(
    grammars: GrammarCompiler, tokenizer: QwenTokenizer, family: CallFamily,
    properties: list[dict[str, Schema]], seed: int, is_single: bool, is_forced: bool,
    cuts: list[int],
) -> None:  # fmt: skip
    schemas = [
        {"type": "object", "properties": p, "required": list(p), "additionalProperties": False}
        for p in properties
    ]
    names = [f"tool_{i}" for i in range(len(schemas))]
    grammar = grammars.compile_calls(
        rules(family, schemas, is_forced=is_forced, is_single=is_single)
    )
    text, has_ended = wander(grammar, tokenizer, seed, "" if is_forced else family.begin)
    assert has_ended
    said, calls = read(text, family, names, cuts, is_sure=True)
    assert said == "" and calls
    assert len(calls) == 1 or not is_single
    for name, arguments in calls:
        assert keeps_to(json.loads(arguments), schemas[names.index(name)])
    assert (said, calls) == read(text, family, names, [], is_sure=False)
