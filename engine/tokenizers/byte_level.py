"""What byte-level tokenizers share. The `tokenizers` library encodes; decoding is by bytes, so that
half a character can wait."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from pathlib import Path

from tokenizers import Tokenizer, models

from lookhear.engine.checkpoints.loader import CheckpointError, read_json
from lookhear.engine.checkpoints.vocabulary import byte_symbols

_LETTER = re.compile("[0-9A-Za-z]")


class ByteLevelTokenizer(ABC):
    """source: the file it was read from, for errors."""

    def __init__(self, tokenizer: Tokenizer, source: Path) -> None:
        self._tokenizer = tokenizer
        self._source = source
        self._byte_of = {symbol: byte for byte, symbol in byte_symbols().items()}
        # UTF-8 bytes of one id, b"" for special and unknown ones. Asked for a dozen tokens of every
        # tick: no function of ours stands between who asks and the table.
        self.token_bytes: Callable[[int], bytes] = _Pieces(self._spell).__getitem__

    def spells_like(self, other: ByteLevelTokenizer) -> bool:
        """Whether all tokens of texts are the same; those added beside may be called otherwise."""
        mine, theirs = (one._tokenizer.get_vocab(with_added_tokens=False) for one in (self, other))
        return bool(mine == theirs)

    def decode(self, ids: Iterable[int]) -> str:
        """Text of ids, those without bytes left out; broken UTF-8 becomes U+FFFD."""
        return self.decode_bytes(ids).decode("utf-8", errors="replace")

    def decode_bytes(self, ids: Iterable[int]) -> bytes:
        """UTF-8 bytes of ids, b"" for special and unknown ones. Two halves of a character simply
        join."""
        return b"".join(map(self.token_bytes, ids))

    def signs(self) -> list[int]:
        """Tokens without a Latin letter or a figure: few of a vocabulary, all of which would take
        long to be spelt."""
        known = self._tokenizer.get_vocab()
        return sorted(token for symbols, token in known.items() if not _LETTER.search(symbols))

    def _spell(self, token: int) -> bytes:
        symbols = None if self._is_silent(token) else self._tokenizer.id_to_token(token)
        return b"" if symbols is None else self._to_bytes(symbols)

    def _to_bytes(self, symbols: str) -> bytes:
        return bytes(map(self._byte_of.__getitem__, symbols))

    @abstractmethod
    def _is_silent(self, token: int) -> bool:
        """Whether it has no bytes."""


class _Pieces(dict[int, bytes]):
    """Bytes by id, found out when they are asked for."""

    def __init__(self, spell: Callable[[int], bytes]) -> None:
        super().__init__()
        self._spell = spell

    def __missing__(self, token: int) -> bytes:
        piece = self[token] = self._spell(token)
        return piece


def read_tokenizer(folder: Path, slow: Callable[[Path], Tokenizer]) -> tuple[Tokenizer, Path]:
    """That of tokenizer.json and where it was; slow: of a folder that has vocab.json instead.
    Raises `CheckpointError`."""
    path = folder / "tokenizer.json"
    if not path.is_file() and (folder / "vocab.json").is_file():
        return slow(folder), folder / "vocab.json"
    read_json(path)
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises plain Exception for every kind of content
        raise CheckpointError(f"{path}: expected a tokenizer, got {error}") from error
    # What a training run cut its texts to and filled them up with is saved in the file, too.
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer, path


def read_merges(folder: Path) -> models.BPE:
    """Of vocab.json and merges.txt; raises `CheckpointError`."""
    vocab = {str(k): int(v) for k, v in read_json(folder / "vocab.json").items()}
    path = folder / "merges.txt"
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise CheckpointError(f"{folder}: expected a file merges.txt, got {error}") from error
    pairs = [line.split(" ") for line in lines if line and not line.startswith("#version")]
    if any(len(pair) != 2 for pair in pairs):
        raise CheckpointError(f"{path}: expected two symbols on each line")
    return models.BPE(vocab=vocab, merges=[(a, b) for a, b in pairs])
