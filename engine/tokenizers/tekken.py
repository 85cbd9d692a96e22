"""Text of Mistral's tokenizer, as its tekken.json has it. It is decoded only."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from lookhear.engine.checkpoints.loader import CheckpointError, read_json, section, whole_number


class TekkenTokenizer:
    """Ids and text of one checkpoint; immutable. special: ids of tokens that are no text, by how
    they are spelt. Ids of text begin behind all of those, named or not."""

    def __init__(self, pieces: list[bytes], special: Mapping[str, int], source: Path) -> None:
        self._pieces = pieces
        self._special = special
        self._source = source

    @classmethod
    def from_folder(cls, folder: Path, vocab_size: int) -> TekkenTokenizer:
        """Reads tekken.json; raises `CheckpointError`. vocab_size: ids of the model."""
        path = folder / "tekken.json"
        told = read_json(path)
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
