"""Mistral's tokenizer, as its tekken.json has it: for models that write text, and that read it.

The file has tokens by rank, and no merges: of two neighbours those are joined first whose token has
the lowest rank. So every pair that makes a token is a merge, in the order of the tokens.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tokenizers import Regex, Tokenizer, models, pre_tokenizers

from lookhear.engine.checkpoints.loader import CheckpointError, read_json, section, whole_number
from lookhear.engine.checkpoints.vocabulary import byte_symbols
from lookhear.engine.tokenizers.qwen import QwenTokenizer

FILE = "tekken.json"


class TekkenTokenizer:
    """Ids and text of one checkpoint, decoded only; immutable. special: ids of tokens that are no
    text, by how they are spelt. Ids of text begin behind all of those, named or not."""

    def __init__(self, pieces: list[bytes], special: Mapping[str, int], source: Path) -> None:
        self._pieces = pieces
        self._special = special
        self._source = source

    @classmethod
    def from_folder(cls, folder: Path, vocab_size: int) -> TekkenTokenizer:
        """Reads tekken.json; raises `CheckpointError`. vocab_size: ids of the model."""
        path = folder / FILE
        return cls._of(read_json(path), path, vocab_size)

    @classmethod
    def _of(cls, told: Mapping[str, Any], path: Path, vocab_size: int) -> TekkenTokenizer:
        config = section(told, "config", path)
        reserved = whole_number(config, path, "default_num_special_tokens")
        size = min(whole_number(config, path, "default_vocab_size"), vocab_size)
        pieces = [b""] * size
        for entry in _entries(told, "vocab", path):
            token = reserved + entry["rank"]
            if reserved <= token < size:
                pieces[token] = _bytes(entry, path)
        special = {
            entry["token_str"]: entry["rank"]
            for entry in _entries(told, "special_tokens", path)
            if isinstance(entry.get("token_str"), str) and 0 <= entry["rank"] < size
        }
        return cls(pieces, special, path)

    def token(self, spelling: str) -> int:
        """Id of one that is no text; `CheckpointError` if this checkpoint has none of that name."""
        if spelling not in self._special:
            raise CheckpointError(f"{self._source}: expected a token {spelling}, found none")
        return self._special[spelling]

    def token_bytes(self, token: int) -> bytes:
        """UTF-8 bytes of one id, b"" for special and unknown ones."""
        return self._pieces[token] if 0 <= token < len(self._pieces) else b""

    def decode_bytes(self, ids: Iterable[int]) -> bytes:
        """UTF-8 bytes of ids, the space in front of the first word among them."""
        return b"".join(map(self.token_bytes, ids))

    def reading(self, pattern: str) -> QwenTokenizer:
        """One that encodes text, too. pattern: of words, which are encoded by themselves."""
        symbols = byte_symbols()
        pieces = [("".join(symbols[byte] for byte in piece)) for piece in self._pieces]
        vocab = {piece: token for token, piece in enumerate(pieces) if piece}
        merges = [
            (piece[:cut], piece[cut:])
            for piece in pieces
            for cut in range(1, len(piece))
            if piece[:cut] in vocab and piece[cut:] in vocab
        ]
        tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges, ignore_merges=True))
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(Regex(pattern), behavior="isolated"),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        )
        return QwenTokenizer(tokenizer, self._source, self._special)


def read_tekken(folder: Path, vocab_size: int) -> QwenTokenizer:
    """Of tekken.json, what encodes and decodes; raises `CheckpointError`. vocab_size: ids of the
    model."""
    path = folder / FILE
    told = read_json(path)
    pattern = section(told, "config", path).get("pattern")
    if not isinstance(pattern, str) or not pattern:
        raise CheckpointError.of(path, "config.pattern", "a regular expression", pattern)
    return TekkenTokenizer._of(told, path, vocab_size).reading(pattern)


def _entries(told: Mapping[str, Any], key: str, path: Path) -> list[dict[str, Any]]:
    entries = told.get(key)
    if isinstance(entries, list) and all(
        isinstance(entry, dict) and type(entry.get("rank")) is int for entry in entries
    ):
        return entries
    raise CheckpointError(f"{path}: {key}: expected a list of objects with a rank")


def _bytes(entry: Mapping[str, Any], path: Path) -> bytes:
    try:
        return base64.b64decode(entry["token_bytes"], validate=True)
    except (KeyError, TypeError, binascii.Error) as error:
        what = f"bytes in base64 at rank {entry['rank']}"
        raise CheckpointError(f"{path}: vocab: token_bytes: expected {what}") from error
