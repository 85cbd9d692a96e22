"""Text of tokenizers whose pieces mark the space in front of a word, and that spell what they have
no piece for byte by byte (SentencePiece's, as `tokenizer.json`). They are decoded only."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from tokenizers import Tokenizer

from lookhear.engine.checkpoints.loader import CheckpointError, read_json
from lookhear.engine.tokenizers.byte_level import read_tokenizer

SPACE = "\N{LOWER ONE EIGHTH BLOCK}"  # as SentencePiece writes it
_BYTE = re.compile(r"<0x([0-9A-F]{2})>")


class PieceTokenizer:
    """Ids and text of one checkpoint; immutable. spelt: how tokenizer.json writes each id."""

    def __init__(self, pieces: list[bytes], spelt: Sequence[str | None] = ()) -> None:
        self._pieces = pieces
        self.spelt = spelt

    @classmethod
    def from_folder(cls, folder: Path, vocab_size: int) -> PieceTokenizer:
        """Reads tokenizer.json; raises `CheckpointError`. vocab_size: ids of the model."""
        tokenizer, source = read_tokenizer(folder, _none)
        special = {
            int(token["id"])
            for token in read_json(source).get("added_tokens") or ()
            if token.get("special")
        }
        count = min(tokenizer.get_vocab_size(), vocab_size)
        spelt = [tokenizer.id_to_token(i) for i in range(count)]
        pieces = [_bytes(piece, is_special=i in special) for i, piece in enumerate(spelt)]
        return cls(pieces, spelt)

    def token_bytes(self, token: int) -> bytes:
        """UTF-8 bytes of one id, b"" for special and unknown ones."""
        return self._pieces[token] if 0 <= token < len(self._pieces) else b""

    def decode_bytes(self, ids: Iterable[int]) -> bytes:
        """UTF-8 bytes of ids, the space in front of the first word among them."""
        return b"".join(map(self.token_bytes, ids))


def _none(folder: Path) -> Tokenizer:
    raise CheckpointError(f"{folder}: expected a file tokenizer.json, found none")


def _bytes(piece: str | None, *, is_special: bool) -> bytes:
    if piece is None or is_special:
        return b""
    found = _BYTE.fullmatch(piece)
    return bytes([int(found[1], 16)]) if found else piece.replace(SPACE, " ").encode()
