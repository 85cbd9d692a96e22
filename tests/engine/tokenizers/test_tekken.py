"""Mistral's tekken.json: ids of text behind those that are reserved, and bytes that are no text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lookhear.engine.checkpoints.loader import CheckpointError
from lookhear.engine.tokenizers.tekken import TekkenTokenizer, read_tekken
from tools.random_checkpoints import voxtral_chat as chat
from tools.random_checkpoints.voxtral import RESERVED, SPECIAL, write_tekken


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_tekken(tmp_path, 160, 20)
    return tmp_path


def test_text_lies_behind_what_is_reserved(folder: Path) -> None:
    ours = TekkenTokenizer.from_folder(folder, 160)
    assert [ours.token_bytes(token) for token in range(RESERVED)] == [b""] * RESERVED
    assert ours.token_bytes(RESERVED) == "\N{EURO SIGN}".encode()
    assert ours.decode_bytes([RESERVED + 3, 1, RESERVED + 1]) == b" ea."
    assert ours.token_bytes(160) == ours.token_bytes(-1) == b""  # files hold more than models have
    assert all(ours.token(name) == token for name, token in SPECIAL.items())
    with pytest.raises(CheckpointError, match=r"expected a token \[INST\]"):
        ours.token("[INST]")


def test_a_model_of_fewer_ids_has_no_others(folder: Path) -> None:
    assert TekkenTokenizer.from_folder(folder, 50).token_bytes(50) == b""


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"config": 3}, "config: expected an object"),
        ({"config": {"default_vocab_size": 9}}, "default_num_special_tokens"),
        ({"vocab": [{"rank": "0"}]}, "vocab: expected a list"),
        ({"vocab": [{"rank": 0, "token_bytes": "="}]}, "token_bytes: expected bytes in base64"),
        ({"vocab": [{"rank": 0}]}, "token_bytes"),
        ({"special_tokens": None}, "special_tokens: expected a list"),
    ],
)
def test_what_is_wrong_is_named(folder: Path, changes: dict[str, Any], named: str) -> None:
    path = folder / "tekken.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    with pytest.raises(CheckpointError, match=named):
        TekkenTokenizer.from_folder(folder, 160)


def test_it_reads_as_tiktoken_does(tmp_path: Path) -> None:
    """Of neighbours those are joined first that make the token of the lowest rank; what is a token
    as a whole is that."""
    chat.write_tekken(tmp_path)
    ours = read_tekken(tmp_path, chat.VOCAB)
    first = chat.RESERVED + 256

    def ids(text: str) -> list[int]:
        """Of words their place in the list, of bytes minus themselves."""
        return [t - first if t >= first else chat.RESERVED - t for t in ours.encode(text)]

    assert ids("the") == [chat.WORDS.index("the")]
    assert ids("thhe") == [chat.WORDS.index("th"), chat.WORDS.index("he")]
    assert ids("thex") == [chat.WORDS.index("the"), -ord("x")]
    assert ids(" what 12") == [chat.WORDS.index(" what"), -ord(" "), -ord("1"), -ord("2")]
    assert ids("é\x00") == [-0xC3, -0xA9, 0]
    assert ids("</s>") == [-ord(letter) for letter in "</s>"]  # text, as users write it
    for text in ("", " the  end\n\n", "Ünï 🙂 [INST]", "\r\n\t"):
        assert ours.decode(ours.encode(text)) == text
    assert ours.token("[INST]") == 3 and ours.decode([3, first]) == "th"
    assert ours.without_added("a</s>b") == "ab"
