"""Pieces are decoded to the bytes that the `tokenizers` library makes of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer

from lookhear.engine.checkpoints.loader import CheckpointError
from lookhear.engine.tokenizers.pieces import PieceTokenizer
from tools.random_checkpoints.moonshine import write_moonshine_tokenizer


@pytest.fixture
def theirs(tmp_path: Path) -> Any:
    write_moonshine_tokenizer(tmp_path)
    return Tokenizer.from_file(str(tmp_path / "tokenizer.json"))


@pytest.mark.parametrize("text", ["the tin hats", "the  two", "é, 日本 🙂", "a\nb"])
def test_text_comes_back(tmp_path: Path, theirs: Any, text: str) -> None:
    ours = PieceTokenizer.from_folder(tmp_path, 300)
    ids = theirs.encode(text, add_special_tokens=False).ids
    assert ours.decode_bytes(ids).decode() == " " + text  # the space in front of the first word
    assert theirs.decode(ids) == text


def test_special_and_unknown_ids_have_no_bytes(tmp_path: Path, theirs: Any) -> None:
    ours = PieceTokenizer.from_folder(tmp_path, 300)
    assert [ours.token_bytes(token) for token in (0, 1, 2, 299, 5000, -1)] == [b""] * 6
    assert ours.token_bytes(3) == b"\x00" and ours.token_bytes(3 + 0xE9) == b"\xe9"
    # A vocabulary that is larger than the model's: what it has no logits for is nothing.
    assert PieceTokenizer.from_folder(tmp_path, 10).token_bytes(20) == b""


def test_what_is_no_tokenizer_is_named(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text(json.dumps({"model": {}}))
    with pytest.raises(CheckpointError, match=r"tokenizer\.json: expected a tokenizer"):
        PieceTokenizer.from_folder(tmp_path, 10)
    (tmp_path / "tokenizer.json").unlink()
    with pytest.raises(CheckpointError, match=r"expected a file tokenizer\.json"):
        PieceTokenizer.from_folder(tmp_path, 10)
