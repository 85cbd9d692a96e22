"""Grammars: whatever is chosen among what they let through, the answer keeps to its schema."""

from __future__ import annotations

import json
import random
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lookhear.engine.core.request import RequestError
from lookhear.engine.sampling.grammar import (
    Choices,
    GrammarCompiler,
    JsonGrammar,
    Pattern,
    Thinking,
)
from lookhear.engine.tokenizers.qwen import QwenTokenizer
from tests.engine.sampling.schemas import SCHEMAS, Schema, keeps_to
from tools.random_checkpoints.qwen3 import write_qwen_tokenizer

PADDING = 7  # logits that stand for no token
SMALL = '{"type":"object","properties":{"a":{"enum":[1,2]}},"required":["a"]}'


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> QwenTokenizer:
    """Every byte, some words, and the tags of thinking."""
    folder = tmp_path_factory.mktemp("tokens")
    write_qwen_tokenizer(folder, "<think>", "</think>")
    return QwenTokenizer.from_folder(folder)


def vocab(tokenizer: QwenTokenizer) -> int:
    return max(tokenizer.added.values()) + 1 + PADDING


def ends(tokenizer: QwenTokenizer) -> tuple[int, ...]:
    return tokenizer.added["<|im_end|>"], tokenizer.added["<|endoftext|>"]


@pytest.fixture(scope="module")
def grammars(tokenizer: QwenTokenizer) -> GrammarCompiler:
    return GrammarCompiler(tokenizer, vocab(tokenizer), ends(tokenizer))


def bounded(least: int, most: int) -> str:
    return json.dumps({"type": "integer", "minimum": least, "maximum": most})


def allowed(bits: np.ndarray, size: int) -> list[int]:
    flat = np.unpackbits(bits.view(np.uint8), bitorder="little")
    assert not flat[size:].any()
    return np.flatnonzero(flat).tolist()


def wander(
    grammar: JsonGrammar, tokenizer: QwenTokenizer, seed: int, most: int = 2000
) -> tuple[list[int], bool]:
    """Tokens chosen evenly among what may come, and whether an end token was."""
    rng, matcher = random.Random(seed), grammar.start()
    size, tokens = vocab(tokenizer), list[int]()
    for _ in range(most):
        bits = np.full(-(-size // 32), -1, np.int32)
        matcher.fill(bits)
        token = rng.choice(allowed(bits, size))
        if token in ends(tokenizer):
            return tokens, True
        matcher.accept(token)
        tokens.append(token)
    return tokens, False


@settings(max_examples=150)
@given(schema=SCHEMAS, seed=st.integers(0, 9))
def test_any_walk_keeps_to_its_schema(
    grammars: GrammarCompiler, tokenizer: QwenTokenizer, schema: Schema, seed: int
) -> None:
    tokens, has_ended = wander(grammars.compile(json.dumps(schema)), tokenizer, seed)
    assert has_ended
    text = tokenizer.decode_bytes(tokens).decode()  # complete characters
    assert keeps_to(json.loads(text), schema), text
    assert not set(tokens) & set(tokenizer.added.values())
    assert "\n" not in text


@pytest.mark.parametrize(
    "schema",
    ['{"type":"object"}', '{"type":"number"}', "{}", '{"type":"string","format":"date-time"}'],
)
def test_walks_without_bounds_parse_where_they_end(
    grammars: GrammarCompiler, tokenizer: QwenTokenizer, schema: str
) -> None:
    ended = 0
    for seed in range(20):
        tokens, has_ended = wander(grammars.compile(schema), tokenizer, seed, most=300)
        if has_ended:
            ended += 1
            value = json.loads(tokenizer.decode_bytes(tokens))
            assert schema != '{"type":"object"}' or isinstance(value, dict)
    assert ended


def test_a_whole_answer_leaves_nothing_but_the_end(
    grammars: GrammarCompiler, tokenizer: QwenTokenizer
) -> None:
    matcher = grammars.compile(SMALL.replace("]}}", ']}},"additionalProperties":false')).start()
    for token in tokenizer.encode('{"a": 2}'):
        matcher.accept(token)
    bits = np.zeros(-(-vocab(tokenizer) // 32), np.int32)
    matcher.fill(bits)
    assert allowed(bits, vocab(tokenizer)) == sorted(ends(tokenizer))


def test_matchers_of_one_grammar_are_apart(
    grammars: GrammarCompiler, tokenizer: QwenTokenizer
) -> None:
    grammar = grammars.compile(SMALL)
    one, other = grammar.start(), grammar.start()
    one.accept(tokenizer.encode("{")[0])
    bits = np.zeros((2, -(-vocab(tokenizer) // 32)), np.int32)
    one.fill(bits[0])
    other.fill(bits[1])
    assert tokenizer.encode("{")[0] in allowed(bits[1], vocab(tokenizer))
    assert tokenizer.encode("{")[0] not in allowed(bits[0], vocab(tokenizer))


# --- thinking ------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("thinking", [Thinking.OPEN, Thinking.FREE])
def test_thinking_is_free_and_ends_with_its_token(
    grammars: GrammarCompiler, tokenizer: QwenTokenizer, thinking: Thinking, seed: int
) -> None:
    begin, end = tokenizer.added["<think>"], tokenizer.added["</think>"]
    schema = {"type": "string", "minLength": 1, "maxLength": 3}
    tokens, has_ended = wander(
        grammars.compile(json.dumps(schema), thinking), tokenizer, seed, 6000
    )
    assert has_ended
    thought: Sequence[int] = []
    if thinking is Thinking.OPEN or tokens[0] == begin:
        place = tokens.index(end)
        thought, tokens = tokens[thinking is Thinking.FREE : place], tokens[place + 1 :]
    assert not set(thought) & set(tokenizer.added.values())
    text = tokenizer.decode_bytes(tokens).decode()
    assert keeps_to(json.loads(text), schema | {"maxLength": 3}), text
    assert text.lstrip("\n")[0] == '"'


def test_the_end_of_thinking_has_one_spelling(
    grammars: GrammarCompiler, tokenizer: QwenTokenizer
) -> None:
    matcher = grammars.compile(SMALL, Thinking.OPEN).start()
    bits = np.zeros(-(-vocab(tokenizer) // 32), np.int32)
    for token in tokenizer.encode("so </thin </think"):
        matcher.accept(token)
    matcher.fill(bits)
    (bracket,) = tokenizer.encode(">")
    assert bracket not in allowed(bits, vocab(tokenizer))
    assert tokenizer.added["</think>"] in allowed(bits, vocab(tokenizer))


# --- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize("thinking", [Thinking.NONE, Thinking.FREE])
@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ('{"type":"strin"}', "strin"),
        ('{"type":"string","pattern":"(a"}', "unclosed group"),
        ('{"type":"string","pattern":"^a$","maxLength":0}', "Unsatisfiable"),
        ('{"type":"array","uniqueItems":true}', "uniqueItems"),
        ('{"$ref":"#"}', "NoExtension"),
        ('{"$ref":"file:///etc/hostname"}', "does not fetch"),
        ('{"type":"integer","multipleOf":10007}', "multipleOf"),
        ('{"allOf":[{"multipleOf":997},{"multipleOf":991}]}', "multipleOf"),
        ('{"type":"number","multipleOf":0.00001}', "multipleOf"),
        pytest.param(f'{{"type":"number","multipleOf":1{"0" * 400}}}', "multipleOf", id="large"),
        ('{"type":"number","multipleOf":true}', "multipleOf"),
        pytest.param(bounded(10**20, 10**20 + 5), "bounds", id="beyond"),
        pytest.param(bounded(-(10**20) - 5, -(10**20)), "bounds", id="below"),
        pytest.param(bounded(10**300, 10**301), "bounds", id="far beyond"),
        pytest.param(bounded(1 - 2**63, 4 - 2**63), "bounds", id="lowest"),
        ("[1]", "an object"),
        ("{", "JSON"),
        ('{"const":1e999}', "keep to"),
    ],
)
def test_schemas_that_no_answer_can_keep_to(
    grammars: GrammarCompiler, schema: str, words: str, thinking: Thinking
) -> None:
    with pytest.raises(RequestError) as caught:
        grammars.compile(schema, thinking)
    assert caught.value.code == "invalid_value"
    assert str(caught.value).startswith("schema: expected ") and words in str(caught.value)
    assert len(str(caught.value)) < 400


def test_what_the_library_would_do_by_itself_is_not_the_clients_to_set(
    grammars: GrammarCompiler, tokenizer: QwenTokenizer
) -> None:
    schema = {"x-guidance": {"whitespace_flexible": True}, "type": "array", "maxItems": 9}
    schema["items"] = {"type": "null"}
    for seed in range(20):
        tokens, _ = wander(grammars.compile(json.dumps(schema)), tokenizer, seed)
        assert set(tokenizer.decode(tokens)) <= set("[nul, ]")


def test_a_vocabulary_with_a_gap_is_refused(
    tokenizer: QwenTokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    (brace,) = tokenizer.encode("{")
    whole = tokenizer.decode_bytes
    monkeypatch.setattr(
        tokenizer, "decode_bytes", lambda ids: whole(token for token in ids if token != brace)
    )
    with pytest.raises(RequestError, match="no token for the byte 0x7b"):
        GrammarCompiler(tokenizer, vocab(tokenizer), ends(tokenizer)).compile(SMALL)


def test_thinking_needs_its_tags(tmp_path: Path) -> None:
    write_qwen_tokenizer(tmp_path)
    tokenizer = QwenTokenizer.from_folder(tmp_path)
    grammars = GrammarCompiler(tokenizer, vocab(tokenizer), ends(tokenizer))
    assert not grammars.thinks
    with pytest.raises(RequestError, match="thinking"):
        grammars.compile(SMALL, Thinking.OPEN)


def test_without_the_library_a_schema_is_refused(
    tokenizer: QwenTokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "llguidance", None)
    with pytest.raises(RequestError, match="missing here"):
        GrammarCompiler(tokenizer, vocab(tokenizer), ends(tokenizer)).compile(SMALL)


def test_a_token_that_may_not_come_ends_the_matching(
    grammars: GrammarCompiler, tokenizer: QwenTokenizer
) -> None:
    """As does whatever else goes wrong in the library: it lets the end through, and we must not."""
    matcher = grammars.compile(SMALL).start()
    matcher.accept(tokenizer.encode("x")[0])
    with pytest.raises(RuntimeError, match="the answer's schema"):
        matcher.fill(np.zeros(-(-vocab(tokenizer) // 32), np.int32))


def test_forced_text_need_not_be_as_a_tokenizer_would_have_it(
    grammars: GrammarCompiler, tokenizer: QwenTokenizer
) -> None:
    """Qwen's puts an accent and its letter together: "e\\u0301" is not what it encodes."""
    schema = json.dumps({"const": "cafe\u0301"})
    tokens, has_ended = wander(grammars.compile(schema), tokenizer, 0)
    assert has_ended and json.loads(tokenizer.decode_bytes(tokens)) == "cafe\u0301"


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("a\\\nb", "a\nb"),
        ("a\nb", "a\nb"),
        (r"a\nb", "a\nb"),
        (r"a\\nb", r"a\nb"),
        (r"a/\/b", "a//b"),
    ],
    ids=["escaped", "plain", "spelt", "backslash", "slashes"],
)
def test_a_pattern_means_its_line_breaks_and_slashes(
    grammars: GrammarCompiler, tokenizer: QwenTokenizer, pattern: str, said: str
) -> None:
    tokens, has_ended = wander(grammars.compile(Pattern(pattern)), tokenizer, 0)
    assert has_ended and tokenizer.decode_bytes(tokens).decode() == said


@pytest.mark.parametrize(
    ("pattern", "meant"),
    [
        (r"\d{3}", "[0-9]{3}"),
        (r"\w{3}", "[0-9A-Za-z_]{3}"),
        (r"\D\W", r"[^0-9][^0-9A-Za-z_]"),
        (r"[\d.]{3}", "[0-9.]{3}"),
        (r"[^\D]{3}", "[0-9]{3}"),
        (r"[a[^\W]]{3}", "[0-9A-Za-z_]{3}"),
        (r"[\w--\d]{3}", "[A-Za-z_]{3}"),
        (r"\d-\d--\d", "[0-9]-[0-9]--[0-9]"),
        (r"[-\d]{3}", "[-0-9]{3}"),
        (r"[\d-]{3}", "[-0-9]{3}"),
        (r"[+-\d]{3}", "[-+0-9]{3}"),
        (r"[+\--\d]{3}", "[-+0-9]{3}"),
        (r"[\d-\w]{3}", "[-0-9A-Za-z_]{3}"),
        (r"\\d", r"\\d"),
    ],
)
def test_figures_and_letters_of_a_pattern_are_those_of_ascii(
    grammars: GrammarCompiler, tokenizer: QwenTokenizer, pattern: str, meant: str
) -> None:
    grammar = grammars.compile(Pattern(pattern))
    for seed in range(40):
        tokens, has_ended = wander(grammar, tokenizer, seed)
        said = tokenizer.decode_bytes(tokens).decode()
        assert has_ended and re.fullmatch(meant, said, re.DOTALL), said


@pytest.mark.parametrize("code", [0, 9, 10, 0x22, 0x5C, 0x7F, 0x80, 0x85, 0x2028, 0xFEFF, 0x1F600])
def test_a_choice_may_have_any_character_in_it(
    grammars: GrammarCompiler, tokenizer: QwenTokenizer, code: int
) -> None:
    said = f"a{chr(code)}b"
    tokens, has_ended = wander(grammars.compile(Choices((said,))), tokenizer, 0)
    assert has_ended and tokenizer.decode_bytes(tokens).decode() == said


def test_a_schema_is_compiled_once(grammars: GrammarCompiler) -> None:
    one = grammars.compile(SMALL)
    assert grammars.compile(SMALL) is one
    for number in range(40):
        grammars.compile(f'{{"const":{number}}}')
    assert grammars.compile(SMALL) is not one
