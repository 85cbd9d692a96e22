from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lookhear.engine.checkpoints.loader import CheckpointError, read_json
from lookhear.engine.speech.text.sentences import ends_text
from lookhear.engine.tokenizers.whisper import WhisperTokenizer
from tools.random_checkpoints.whisper import (
    EOT,
    FIRST_TIMESTAMP,
    NO_TIMESTAMPS,
    SOT,
    TRANSCRIBE,
    TRANSLATE,
    build_random_whisper,
)

TEXTS = [" the word", "The wörld, über all: 12.5 €!", " 敬語 日本", "  two  spaces\n", "🙂🙃", ""]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_random_whisper(tmp_path_factory.mktemp("tokens") / "model", width=8, layers=1)


@pytest.fixture(scope="module")
def tokenizer(folder: Path) -> WhisperTokenizer:
    return WhisperTokenizer.from_folder(folder)


@pytest.fixture(scope="module")
def theirs(folder: Path) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder)


def edited(folder: Path, tmp_path: Path, **generation: object) -> Path:
    """The folder's JSON files with another generation config."""
    for name in ("tokenizer.json", "config.json"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    (tmp_path / "generation_config.json").write_text(json.dumps(generation))
    return tmp_path


@pytest.mark.parametrize("text", TEXTS)
def test_text_there_and_back(tokenizer: WhisperTokenizer, theirs: Any, text: str) -> None:
    ids = tokenizer.encode(text)
    assert ids == theirs.encode(text, add_special_tokens=False)
    assert tokenizer.decode(ids) == text == theirs.decode(ids)
    assert tokenizer.decode_bytes(ids) == text.encode()
    assert b"".join(tokenizer.decode_bytes([i]) for i in ids) == text.encode()


def test_no_end_of_a_sentence_is_missing_among_the_signs(tokenizer: WhisperTokenizer) -> None:
    ends = [t for t in range(tokenizer.eot) if ends_text(tokenizer.token_bytes(t))]
    signs = tokenizer.signs()
    assert ends and set(ends) < set(signs)
    assert signs == sorted(set(signs)) and len(signs) < 0.1 * tokenizer.vocab_size


def test_special_tokens_are_where_whisper_has_them(tokenizer: WhisperTokenizer) -> None:
    t = tokenizer
    assert (t.eot, t.sot, t.transcribe, t.translate) == (EOT, SOT, TRANSCRIBE, TRANSLATE)
    assert (t.no_timestamps, t.timestamp_begin) == (NO_TIMESTAMPS, FIRST_TIMESTAMP)
    assert t.languages["en"] == SOT + 1 and t.languages["de"] == SOT + 3 and len(t.languages) == 99
    assert t.alignment_heads == [(0, 0), (0, 1)]
    assert EOT in t.begin_suppress_tokens and SOT in t.suppress_tokens
    assert t.timestamp_seconds(FIRST_TIMESTAMP + 150) == pytest.approx(3.0)


def test_special_tokens_have_no_text(tokenizer: WhisperTokenizer) -> None:
    ids = [SOT, TRANSCRIBE, *tokenizer.encode(" the"), FIRST_TIMESTAMP + 3, EOT, 60_000, -1]
    assert tokenizer.decode(ids) == " the"


def test_a_special_token_spelt_out_is_text(tokenizer: WhisperTokenizer) -> None:
    text = "a <|endoftext|> b<|de|>"
    ids = tokenizer.encode(text)
    assert max(ids) < EOT
    assert tokenizer.decode(ids) == text


def test_english_only_has_neither_language_nor_task(folder: Path, tmp_path: Path) -> None:
    t = WhisperTokenizer.from_folder(edited(folder, tmp_path, is_multilingual=False))
    assert not t.is_multilingual and t.languages == {}


def test_a_bare_generation_config(
    folder: Path, tmp_path: Path, tokenizer: WhisperTokenizer
) -> None:
    t = WhisperTokenizer.from_folder(edited(folder, tmp_path, suppress_tokens=[-1, 99_999]))
    assert t.languages == tokenizer.languages and t.is_multilingual
    assert t.suppress_tokens == [] and t.begin_suppress_tokens == [] and t.alignment_heads is None


def test_an_older_config_says_what_is_never_written(folder: Path, tmp_path: Path) -> None:
    """As transformers reads it: only where no generation_config.json says it."""
    from transformers import GenerationConfig, WhisperConfig

    edited(folder, tmp_path)
    lists = {"suppress_tokens": [1, 2, 7], "begin_suppress_tokens": [220, EOT]}
    config = {**read_json(tmp_path / "config.json"), **lists}
    (tmp_path / "config.json").write_text(json.dumps(config))
    t = WhisperTokenizer.from_folder(tmp_path)
    assert t.suppress_tokens == t.begin_suppress_tokens == []
    (tmp_path / "generation_config.json").unlink()
    t = WhisperTokenizer.from_folder(tmp_path)
    theirs = GenerationConfig.from_model_config(WhisperConfig.from_pretrained(tmp_path))
    assert t.suppress_tokens == theirs.suppress_tokens == [1, 2, 7]
    assert t.begin_suppress_tokens == theirs.begin_suppress_tokens == [220, EOT]


def test_the_files_of_older_checkpoints(
    folder: Path, tmp_path: Path, tokenizer: WhisperTokenizer
) -> None:
    edited(folder, tmp_path)
    content = read_json(tmp_path / "tokenizer.json")
    (tmp_path / "tokenizer.json").unlink()
    merges = [" ".join(m) if isinstance(m, list) else m for m in content["model"]["merges"]]
    (tmp_path / "merges.txt").write_text("#version: 0.2\n" + "\n".join(merges), encoding="utf-8")
    (tmp_path / "vocab.json").write_text(json.dumps(content["model"]["vocab"]))
    added = {a["content"]: a["id"] for a in content["added_tokens"]}
    (tmp_path / "added_tokens.json").write_text(json.dumps(added))
    old = WhisperTokenizer.from_folder(tmp_path)
    assert old.languages == tokenizer.languages and old.timestamp_begin == FIRST_TIMESTAMP
    for text in TEXTS:
        assert old.encode(text) == tokenizer.encode(text)
        assert old.decode(old.encode(text)) == text


def test_broken_files(folder: Path, tmp_path: Path) -> None:
    edited(folder, tmp_path)
    (tmp_path / "tokenizer.json").write_text('{"model": 3}')
    with pytest.raises(CheckpointError, match="expected a tokenizer, got"):
        WhisperTokenizer.from_folder(tmp_path)
    (tmp_path / "tokenizer.json").unlink()
    with pytest.raises(CheckpointError, match=r"expected a file tokenizer\.json"):
        WhisperTokenizer.from_folder(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(CheckpointError, match="vocab_size: expected a number, got None"):
        WhisperTokenizer.from_folder(tmp_path)


def test_a_tokenizer_of_another_family(folder: Path, tmp_path: Path) -> None:
    from tokenizers import Tokenizer, models

    edited(folder, tmp_path)
    Tokenizer(models.BPE(vocab={"a": 0}, merges=[])).save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(CheckpointError, match=r"expected a token <\|endoftext\|>, found none"):
        WhisperTokenizer.from_folder(tmp_path)


def test_transformers_is_not_imported() -> None:
    code = (
        "import sys, lookhear.engine.tokenizers.whisper, lookhear.engine.families.registry;"
        "import lookhear.engine.checkpoints.hub;"
        "print('transformers' in sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "False"
