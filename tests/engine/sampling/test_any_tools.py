"""Any schemas of tools, sensible or not: a grammar that can be walked, or a refusal in words."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lookhear.engine.chat.tool_rules import call_rules
from lookhear.engine.core.request import RequestError
from lookhear.engine.markup.hermes import HERMES
from lookhear.engine.messages import AnswerSettings
from lookhear.engine.sampling.grammar import GrammarCompiler
from lookhear.engine.tokenizers.qwen import QwenTokenizer
from lookhear.gateway.chat.completions.parameters import parse_parameters
from lookhear.gateway.http.errors import ApiError
from tests.engine.sampling.any_schemas import EXAMPLES, NAMED, TOOLS
from tools.random_checkpoints.qwen3 import write_qwen_tokenizer


@pytest.fixture(scope="module")
def grammars(tmp_path_factory: pytest.TempPathFactory) -> GrammarCompiler:
    folder: Path = tmp_path_factory.mktemp("tokens")
    write_qwen_tokenizer(folder, "<think>", "</think>", "</tool_call>")
    tokenizer = QwenTokenizer.from_folder(folder)
    end = tokenizer.added["<|im_end|>"]
    return GrammarCompiler(tokenizer, max(tokenizer.added.values()) + 1, (end,))


@settings(max_examples=EXAMPLES, deadline=None)
@given(TOOLS, st.sampled_from(["auto", "required", *NAMED]), st.booleans(), st.integers(0, 99))
def test_any_tools_are_called_or_refused_in_words(
    grammars: GrammarCompiler, functions: list[Any], choice: Any, parallel: bool, seed: int
) -> None:
    tools = [{"type": "function", "function": function} for function in functions]
    body = {"tools": tools, "tool_choice": choice, "parallel_tool_calls": parallel}
    try:
        asked: AnswerSettings = parse_parameters(body).settings()
    except ApiError as error:
        assert error.status == 400 and error.param and error.message.startswith(error.param)
        return
    try:
        grammar = grammars.compile_calls(call_rules(asked, HERMES))
    except RequestError as error:
        assert error.code == "invalid_value" and str(error).startswith("tools[")
        assert any(tool.is_strict for tool in asked.tools), json.dumps(body)
        return
    matcher, rng, vocab = grammar.start(), random.Random(seed), grammars._vocab
    bits = np.zeros(-(-vocab // 32), np.int32)
    for _ in range(25):
        matcher.fill(bits)
        may = np.flatnonzero(np.unpackbits(bits.view(np.uint8), bitorder="little")).tolist()
        assert may
        token = rng.choice(may)
        if token in grammars._end_tokens:
            return
        matcher.accept(token)
