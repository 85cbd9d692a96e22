from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from lookhear.engine.checkpoints.loader import CheckpointError
from lookhear.engine.tokenizers.detokenizer import IncrementalDetokenizer
from lookhear.engine.tokenizers.qwen import QwenTokenizer
from tools.random_checkpoints.qwen3 import ADDED, write_qwen_tokenizer

TEXTS = ["the word", "The wörld, it's all: 12.5 €!", " 敬語 日本", "  two  spaces\n\n x", "🙂", ""]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tokens")
    write_qwen_tokenizer(folder)
    return folder


@pytest.fixture(scope="module")
def tokenizer(folder: Path) -> QwenTokenizer:
    return QwenTokenizer.from_folder(folder)


@pytest.fixture(scope="module")
def theirs(folder: Path) -> Any:
    from transformers import Qwen2Tokenizer

    return Qwen2Tokenizer.from_pretrained(folder)


@pytest.mark.parametrize("text", TEXTS)
def test_text_is_encoded_as_transformers_does(
    tokenizer: QwenTokenizer, theirs: Any, text: str
) -> None:
    ids = tokenizer.encode(text)
    assert ids == theirs.encode(text, add_special_tokens=False)
    assert tokenizer.decode(ids) == text


@pytest.mark.parametrize("text", TEXTS)
def test_tokenizer_json_gives_the_same(
    tokenizer: QwenTokenizer, theirs: Any, text: str, tmp_path: Path
) -> None:
    theirs.save_pretrained(tmp_path)
    assert not (tmp_path / "vocab.json").exists()
    fast = QwenTokenizer.from_folder(tmp_path)
    assert fast.encode(text) == tokenizer.encode(text)
    assert all(fast.added[spelling] == tokenizer.added[spelling] for spelling in ADDED)


def test_texts_are_neither_cut_nor_filled_up_as_they_were_in_training(
    tokenizer: QwenTokenizer, theirs: Any, tmp_path: Path
) -> None:
    theirs.save_pretrained(tmp_path)
    path = tmp_path / "tokenizer.json"
    trained = Tokenizer.from_file(str(path))
    trained.enable_truncation(4)
    trained.enable_padding(length=4)
    trained.save(str(path))
    fast = QwenTokenizer.from_folder(tmp_path)
    for text in ("", "a", "a longer text than four"):
        assert fast.encode(text) == tokenizer.encode(text)


@pytest.mark.parametrize("spelling", ADDED)
def test_added_tokens_in_text_are_text(tokenizer: QwenTokenizer, spelling: str) -> None:
    for text in (spelling, f"a {spelling}{spelling} b", f"<{spelling}"):
        ids = tokenizer.encode(text)
        assert not set(ids) & set(tokenizer.added.values())
        assert tokenizer.decode(ids) == text


@given(st.lists(st.sampled_from([*ADDED, "<|im_", "end|>", "<", "a", " "]), max_size=8))
def test_no_added_token_survives_cleaning(tmp_path_factory: Any, parts: list[str]) -> None:
    folder = tmp_path_factory.getbasetemp() / "cleaning"
    if not folder.exists():
        write_qwen_tokenizer(folder)
    clean = QwenTokenizer.from_folder(folder).without_added("".join(parts))
    assert not any(spelling in clean for spelling in ADDED)


def test_special_tokens_are_silent_and_the_tag_is_not(tokenizer: QwenTokenizer) -> None:
    ids = [tokenizer.token("<asr_text>"), *tokenizer.encode("hé"), tokenizer.token("<|im_end|>")]
    assert tokenizer.decode([*ids, 99_999]) == "<asr_text>hé"
    spelt = b"".join(map(tokenizer.spelling, [*ids, 99_999]))
    assert spelt.decode() == "<asr_text>hé<|im_end|>"


def test_halves_of_a_character_join(tokenizer: QwenTokenizer) -> None:
    text = "日本🙂"
    incremental = IncrementalDetokenizer(lambda token: tokenizer.decode_bytes([token]))
    shown = [incremental.push([token]) for token in tokenizer.encode(text)]
    assert "".join(shown) + incremental.flush() == text
    assert "\ufffd" not in "".join(shown)


def test_a_missing_token_is_named(tokenizer: QwenTokenizer) -> None:
    with pytest.raises(CheckpointError, match="expected a token <|nothing|>"):
        tokenizer.token("<|nothing|>")


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("merges.txt", "a b c", "two symbols"),
        ("tokenizer_config.json", {"added_tokens_decoder": {"7": {}}}, "objects with content"),
        (
            "tokenizer_config.json",
            {"added_tokens_decoder": {"900": {"content": "<x>"}}},
            "ids that continue vocab.json",
        ),
        ("tokenizer.json", {"model": 3}, "expected a tokenizer"),
    ],
)
def test_broken_files(tmp_path: Path, file: str, content: Any, message: str) -> None:
    write_qwen_tokenizer(tmp_path)
    text = content if isinstance(content, str) else json.dumps(content)
    (tmp_path / file).write_text(text, encoding="utf-8")
    with pytest.raises(CheckpointError, match=message):
        QwenTokenizer.from_folder(tmp_path)


def test_an_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"tokenizer\.json"):
        QwenTokenizer.from_folder(tmp_path)
