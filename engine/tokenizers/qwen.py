"""Qwen's byte-level tokenizer, read from a checkpoint folder of either form.

Which added tokens a text may hold is decided here: none. Prompts put them in by id.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, normalizers, pre_tokenizers

from lookhear.engine.checkpoints.loader import CheckpointError, read_json
from lookhear.engine.tokenizers.byte_level import (
    ByteLevelTokenizer,
    read_merges,
    read_tokenizer,
)

# Qwen2's own split of a text into words (transformers, `tokenization_qwen2.py`).
_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


class QwenTokenizer(ByteLevelTokenizer):
    """Ids and text of one checkpoint; immutable.

    added: spelling -> id of the tokens outside the byte-level vocabulary. Those marked special are
    silent when decoded; the others, like <asr_text>, are spelt out.
    """

    def __init__(
        self, tokenizer: Tokenizer, source: Path, special: Mapping[str, int] | None = None
    ) -> None:
        """special: more of those that are silent, which the library is not told of."""
        super().__init__(tokenizer, source)
        special = special or {}
        added: Mapping[int, AddedToken] = tokenizer.get_added_tokens_decoder()
        self.added = {**{token.content: index for index, token in added.items()}, **special}
        self._silent = {index: token.content for index, token in added.items() if token.special}
        self._silent.update((index, name) for name, index in special.items())
        self._spellings = _any_of(self.added)
        self._known = _any_of(token.content for token in added.values())

    @classmethod
    def from_folder(cls, folder: Path) -> QwenTokenizer:
        """Reads tokenizer.json, or vocab.json, merges.txt and the added tokens of
        tokenizer_config.json; raises `CheckpointError`."""
        return cls(*read_tokenizer(folder, _from_slow_files))

    @property
    def ending(self) -> tuple[int, ...]:
        """Ids that the checkpoint puts behind every text that it is given as it is."""
        return tuple(self._tokenizer.encode("", add_special_tokens=True).ids)

    def word(self, spelling: str) -> int | None:
        """Id of a text that is one token; None if it is several."""
        ids = self.encode(spelling)
        return ids[0] if len(ids) == 1 else None

    def token(self, spelling: str) -> int:
        """Id of an added token; `CheckpointError` if this checkpoint has none of that name."""
        if spelling not in self.added:
            raise CheckpointError(f"{self._source}: expected a token {spelling}, found none")
        return self.added[spelling]

    def encode(self, text: str) -> list[int]:
        """Ids of plain text; added tokens spelt out in it are text like any other."""
        ids: list[int] = []
        start = 0
        # Cut behind the first character of what would become a token, and it cannot.
        cuts = [found.start() + 1 for found in self._known.finditer(text)]
        for end in [*cuts, len(text)]:
            ids += self._tokenizer.encode(text[start:end], add_special_tokens=False).ids
            start = end
        return ids

    def without_added(self, text: str) -> str:
        """The text with all spellings of added tokens taken out, also those that taking one out
        has put together."""
        while (shorter := self._spellings.sub("", text)) != text:
            text = shorter
        return text

    def spelling(self, token: int) -> bytes:
        """As who writes a prompt writes it: UTF-8 of silent ones, too."""
        return self._silent[token].encode() if token in self._silent else self.token_bytes(token)

    def _is_silent(self, token: int) -> bool:
        return token in self._silent

    def _to_bytes(self, symbols: str) -> bytes:
        return symbols.encode() if symbols in self.added else super()._to_bytes(symbols)


def _any_of(texts: Iterable[str]) -> re.Pattern[str]:
    longest_first = sorted(texts, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")


def _from_slow_files(folder: Path) -> Tokenizer:
    """The same tokenizer from the files of the original checkpoints."""
    tokenizer = Tokenizer(read_merges(folder))
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_WORDS), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    config = folder / "tokenizer_config.json"
    for index, entry in sorted(_added_tokens(read_json(config), config).items()):
        tokenizer.add_tokens([AddedToken(entry["content"], special=entry.get("special", False))])
        got = tokenizer.token_to_id(entry["content"])
        if got != index:
            raise CheckpointError(
                f"{config}: added_tokens_decoder: expected ids that continue vocab.json, "
                f"got {entry['content']!r} at {index}, which would be {got}"
            )
    return tokenizer


def _added_tokens(config: Mapping[str, Any], path: Path) -> dict[int, dict[str, Any]]:
    entries = config.get("added_tokens_decoder", {})
    if not (
        isinstance(entries, dict)
        and all(str(key).isdigit() for key in entries)
        and all(isinstance(e, dict) and isinstance(e.get("content"), str) for e in entries.values())
    ):
        raise CheckpointError(f"{path}: added_tokens_decoder: expected objects with content by id")
    return {int(key): entry for key, entry in entries.items()}
