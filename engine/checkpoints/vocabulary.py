"""Whisper's tokens by openai/whisper's own rules, for checkpoints that bring no tokenizer.json.

Its text is one of two byte-level vocabularies, `gpt2.tiktoken` and `multilingual.tiktoken`; the
special tokens follow in a fixed order (openai/whisper `tokenizer.py`, `get_encoding`).
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

_MULTILINGUAL = 51_865  # tokens from which on a checkpoint knows languages
_LANGUAGES = (
    "en zh de es ru ko fr ja pt tr pl ca nl ar sv it id hi fi vi he uk el ms cs ro da hu ta no th "
    "ur hr bg lt la mi ml cy sk te fa lv bn sr az sl kn et mk br eu is hy ne mn bs kk sq sw gl mr "
    "pa si km sn yo so af oc ka be tg sd gu am yi lo uz fo ht ps tk nn mt sa lb my bo tl mg as tt "
    "haw ln ha ba jw su yue"
).split()
_TASKS = ["translate", "transcribe", "startoflm", "startofprev", "nospeech", "notimestamps"]
_TIMESTAMPS = 1501
# What speech is not: openai/whisper `Tokenizer.non_speech_tokens`. Notes are suppressed even if
# only their first byte has a token of its own.
_SYMBOLS = (
    *'"#()*+/:;<=>@[\\]^_`{|}~「」『』',
    *"<< >> <<< >>> -- --- -( -[ (' (\" (( )) ((( ))) [[ ]] {{ }} ♪♪ ♪♪♪".split(),
)
_NOTES = "♩♪♫♬♭♮♯"


def is_multilingual(vocab_size: int) -> bool:
    """openai/whisper's own rule, where no file says it."""
    return vocab_size >= _MULTILINGUAL


def vocabulary_file(vocab_size: int) -> str:
    """The name that openai/whisper gives the text of a checkpoint of so many tokens."""
    return "multilingual.tiktoken" if is_multilingual(vocab_size) else "gpt2.tiktoken"


def build_tokenizer(path: Path, vocab_size: int) -> Tokenizer:
    """path: a vocabulary as above. Raises OSError, and ValueError if it is none, or is not that of
    a checkpoint of so many tokens."""
    ranks = _read_ranks(path)
    symbols = byte_symbols()

    def spelt(token: bytes) -> str:
        return "".join(symbols[byte] for byte in token)

    merges = [(spelt(left), spelt(right)) for left, right in _merges(ranks)]
    vocab = {spelt(token): rank for token, rank in ranks.items()}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    languages = vocab_size - len(ranks) - len(_TASKS) - _TIMESTAMPS - 2
    if not 1 <= languages <= len(_LANGUAGES):
        raise ValueError(f"{path}: expected the text of {vocab_size} tokens, got {len(ranks)}")
    names = ["endoftext", "startoftranscript", *_LANGUAGES[:languages], *_TASKS]
    tokenizer.add_special_tokens([AddedToken(f"<|{name}|>", special=True) for name in names])
    return tokenizer


def generation_rules(tokenizer: Tokenizer, vocab_size: int) -> dict[str, Any]:
    """What generation_config.json says of tokens: those never written, the languages."""

    def id_of(name: str) -> int:
        token: int | None = tokenizer.token_to_id(f"<|{name}|>")
        assert token is not None, name
        return token

    def encode(text: str) -> list[int]:
        ids: list[int] = tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    # Hyphens and quotes may stand between words, but not begin one.
    never = {encode(" -")[0], encode(" '")[0]}
    for symbol in (*_SYMBOLS, *_NOTES):
        for ids in (encode(symbol), encode(f" {symbol}")):
            if len(ids) == 1 or symbol in _NOTES:
                never.add(ids[0])
    never |= {id_of(name) for name in ("startoftranscript", *_TASKS[:-1])}
    rules: dict[str, Any] = {
        "suppress_tokens": sorted(never),
        "begin_suppress_tokens": [encode(" ")[0], id_of("endoftext")],
        "is_multilingual": is_multilingual(vocab_size),
    }
    if is_multilingual(vocab_size):
        languages = range(id_of("startoftranscript") + 1, id_of("translate"))
        rules["lang_to_id"] = {tokenizer.id_to_token(i): i for i in languages}
    return rules


def byte_symbols() -> dict[int, str]:
    """GPT-2's printable symbol for every byte (openai/gpt-2 `encoder.py`)."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    symbols = {byte: chr(byte) for byte in printable}
    others = (byte for byte in range(256) if byte not in symbols)
    symbols.update({byte: chr(256 + index) for index, byte in enumerate(others)})
    return symbols


def _read_ranks(path: Path) -> dict[bytes, int]:
    """Ids of the tokens, by their bytes: lines of base64 and a number."""
    try:
        lines = [line.split() for line in path.read_text("ascii").splitlines() if line]
        # One token is empty, and written as padding alone.
        ranks = {base64.b64decode(token.strip("=") and token): int(rank) for token, rank in lines}
    except (ValueError, binascii.Error) as error:
        raise ValueError(f"{path}: expected tokens in base64 and numbers, got {error}") from error
    if sorted(ranks.values()) != list(range(len(ranks))):
        raise ValueError(f"{path}: expected numbers from 0 on, each once")
    return ranks


def _merges(ranks: dict[bytes, int]) -> Iterator[tuple[bytes, bytes]]:
    """Which two tokens each longer one was joined of: what merging with all the earlier ones leaves
    of it."""
    for token, rank in sorted(ranks.items(), key=lambda item: item[1]):
        parts = [token[i : i + 1] for i in range(len(token))]
        while len(parts) > 2:
            joined = [ranks.get(a + b, rank) for a, b in zip(parts, parts[1:], strict=False)]
            best = min(joined)
            if best >= rank:
                raise ValueError(f"expected a byte-level vocabulary, got a token {token!r}")
            i = joined.index(best)
            parts[i : i + 2] = [parts[i] + parts[i + 1]]
        if len(parts) == 2:
            yield parts[0], parts[1]
