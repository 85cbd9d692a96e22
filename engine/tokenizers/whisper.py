"""Whisper's text tokens, special tokens and suppress lists, read from a checkpoint folder."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, pre_tokenizers

from lookhear.engine.checkpoints.loader import CheckpointError, read_json
from lookhear.engine.checkpoints.vocabulary import is_multilingual
from lookhear.engine.tokenizers.byte_level import (
    ByteLevelTokenizer,
    read_merges,
    read_tokenizer,
)

SECONDS_PER_TIMESTAMP = 0.02
_LANGUAGE = re.compile(r"<\|([a-z]{2,3})\|>")


class WhisperTokenizer(ByteLevelTokenizer):
    """Ids and text of one checkpoint; immutable.

    Ids below `eot` are text. sot, prev, no_speech, no_timestamps, transcribe, translate: special
    tokens. timestamp_begin: id of <|0.00|>; each later id is 0.02 s more. languages: code to id.
    suppress_tokens, begin_suppress_tokens: ids never chosen, and not chosen as first token.
    alignment_heads: (decoder layer, head) pairs whose attention follows the audio; None: not known.
    """

    def __init__(
        self, tokenizer: Tokenizer, generation: Mapping[str, Any], vocab_size: int, source: Path
    ) -> None:
        super().__init__(tokenizer, source)
        self.vocab_size = vocab_size
        self.eot = self._id("<|endoftext|>")
        self.sot = self._id("<|startoftranscript|>")
        self.translate = self._id("<|translate|>")
        self.transcribe = self._id("<|transcribe|>")
        self.prev = self._id("<|startofprev|>")
        self.no_speech = self._id("<|nospeech|>", "<|nocaptions|>")
        self.no_timestamps = self._id("<|notimestamps|>")
        self.timestamp_begin = self.no_timestamps + 1
        self.is_multilingual = bool(generation.get("is_multilingual", is_multilingual(vocab_size)))
        self.languages = self._read_languages(generation.get("lang_to_id"))
        self.suppress_tokens = self._ids(generation, "suppress_tokens")
        self.begin_suppress_tokens = self._ids(generation, "begin_suppress_tokens")
        self.alignment_heads = self._read_heads(generation.get("alignment_heads"))

    @classmethod
    def from_folder(cls, folder: Path) -> WhisperTokenizer:
        """Reads tokenizer.json (or vocab.json, merges.txt and added_tokens.json), config.json and
        generation_config.json; raises `CheckpointError`."""
        config = read_json(folder / "config.json")
        vocab_size = config.get("vocab_size")
        if not isinstance(vocab_size, int):
            raise CheckpointError.of(folder / "config.json", "vocab_size", "a number", vocab_size)
        generation = read_generation(folder, config)
        tokenizer, source = read_tokenizer(folder, _from_slow_files)
        return cls(tokenizer, generation, vocab_size, source)

    def encode(self, text: str) -> list[int]:
        """Ids of plain text; special tokens spelt out in it are text like any other."""
        # A special token in a user's prompt must not become one: cut its opening sign off.
        ids: list[int] = []
        for part in re.split(r"(?<=<)(?=\|)", text):
            ids.extend(self._tokenizer.encode(part, add_special_tokens=False).ids)
        return ids

    def timestamp_seconds(self, token: int) -> float:
        """Seconds from the window's start that a timestamp token stands for."""
        assert token >= self.timestamp_begin, token
        return (token - self.timestamp_begin) * SECONDS_PER_TIMESTAMP

    def timestamp_token(self, seconds: float) -> int:
        """The timestamp nearest to so many seconds from the window's start."""
        token = self.timestamp_begin + round(max(0.0, seconds) / SECONDS_PER_TIMESTAMP)
        return min(token, self.vocab_size - 1)

    def _is_silent(self, token: int) -> bool:
        return not 0 <= token < self.eot

    def _to_bytes(self, symbols: str) -> bytes:
        try:
            return super()._to_bytes(symbols)
        except KeyError:  # an entry that was added as plain text
            return symbols.encode()

    def _id(self, *spellings: str) -> int:
        for spelling in spellings:
            token: int | None = self._tokenizer.token_to_id(spelling)
            if token is not None:
                return token
        raise CheckpointError(f"{self._source}: expected a token {spellings[0]}, found none")

    def _read_languages(self, lang_to_id: object) -> dict[str, int]:
        if not self.is_multilingual:
            return {}
        if isinstance(lang_to_id, dict):
            named = {str(k): int(v) for k, v in lang_to_id.items()}
        else:  # between the start token and the tasks, and spelt like a language
            named = {
                self._tokenizer.id_to_token(i) or "": i
                for i in range(self.sot + 1, min(self.translate, self.transcribe))
            }
        found = ((_LANGUAGE.fullmatch(text), token) for text, token in named.items())
        return {match[1]: token for match, token in found if match}

    def _ids(self, generation: Mapping[str, Any], key: str) -> list[int]:
        """A list of ids; negative ones mean "none" in some configs."""
        return [int(i) for i in generation.get(key) or () if 0 <= int(i) < self.vocab_size]

    def _read_heads(self, heads: object) -> list[tuple[int, int]] | None:
        if not isinstance(heads, list) or not heads:
            return None
        return [(int(layer), int(head)) for layer, head in heads]


def read_generation(folder: Path, config: Mapping[str, Any]) -> Mapping[str, Any]:
    """generation_config.json; of older checkpoints, which have none, config.json says the same."""
    path = folder / "generation_config.json"
    return read_json(path) if path.is_file() else config


def _from_slow_files(folder: Path) -> Tokenizer:
    """The same tokenizer from the files of older checkpoints."""
    merges = read_merges(folder)
    added = {str(k): int(v) for k, v in read_json(folder / "added_tokens.json").items()}
    specials = sorted(added.items(), key=lambda item: item[1])
    tokenizer = Tokenizer(merges)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.add_special_tokens([AddedToken(text, special=True) for text, _ in specials])
    wrong = [text for text, token in specials if tokenizer.token_to_id(text) != token]
    if wrong:
        raise CheckpointError(
            f"{folder / 'added_tokens.json'}: expected ids that continue vocab.json, got "
            f"{json.dumps(wrong[0])} at {added[wrong[0]]}"
        )
    return tokenizer
