"""Which words of a changing hypothesis may be said for good. Pure functions on token ids.

Local agreement (Liu et al. 2020, "Low-latency sequence-to-sequence speech recognition and
translation by partial hypothesis selection"; LocalAgreement-2): what two consecutive hypotheses
begin with alike is stable. Only whole words count.
"""

from __future__ import annotations

import codecs
import math
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import accumulate
from os.path import commonprefix
from typing import NamedTuple

TokenBytes = Callable[[int], bytes]

PIECES = 1 << 16  # spellings that are remembered: the same few thousand come again in every tick


def common_prefix(a: Sequence[int], b: Sequence[int]) -> int:
    """Number of leading items in which a and b are the same."""
    n = 0
    for x, y in zip(a, b, strict=False):
        if x != y:
            break
        n += 1
    return n


def is_boundary(tokens: Sequence[int], n: int, token_bytes: TokenBytes, unspaced: bool) -> bool:
    """Whether a word ends between tokens[n-1] and tokens[n] (the end of tokens is a boundary).

    Punctuation may follow a finished word, so it is a boundary too.
    """
    if n == 0 or n == len(tokens) or _follows_word(token_bytes(tokens[n])):
        return True
    if not unspaced:
        return False
    try:
        b"".join(token_bytes(t) for t in tokens[:n]).decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


@lru_cache(PIECES)
def _follows_word(data: bytes) -> bool:
    """Whether a word is over before a token of these bytes."""
    return data[:1].isspace() or is_punctuation(data)


@lru_cache(PIECES)
def _letters(data: bytes) -> tuple[str | None, bool]:
    """What of a token can be heard, None if it is no whole characters by itself; and whether a word
    is over before it."""
    try:
        return audible(data.decode("utf-8")), _follows_word(data)
    except UnicodeDecodeError:
        return None, _follows_word(data)


def audible(text: str) -> str:
    return "".join(c for c in text.casefold() if c.isalnum())


@lru_cache(PIECES)
def is_punctuation(data: bytes) -> bool:
    """Whether a token's bytes are nothing but punctuation (and spaces)."""
    text = data.decode("utf-8", errors="replace").strip()
    return bool(text) and all(unicodedata.category(c).startswith("P") for c in text)


def agreed_words(
    older: Iterable[Sequence[int]],
    new: Sequence[int],
    token_bytes: TokenBytes,
    *,
    held_words: int,
    unspaced: bool = False,
    limit: int | None = None,
) -> int:
    """Number of leading tokens of new that are stable: whole words spelt alike in new and all
    older, in whatever tokens. A model that is not sure of a word cuts it now here, now there.

    held_words: words at the end of new that are kept back, because what follows may still change
    them ("six" of "sixty"). Punctuation at the very end is always kept back: more speech turns "."
    into ",". limit: no more tokens than this, whatever is alike.
    """
    olds = list(older)
    if not olds:
        return 0
    end = num_unheld(new, token_bytes, held_words=held_words, unspaced=unspaced)
    n = min(end, len(new) if limit is None else limit)
    while n > 0 and not (
        is_boundary(new, n, token_bytes, unspaced)
        and all(_has_words(old, new[:n], token_bytes, unspaced) for old in olds)
    ):
        n -= 1
    return n


def _has_words(
    tokens: Sequence[int], words: Sequence[int], token_bytes: TokenBytes, unspaced: bool
) -> bool:
    """Whether tokens begin with these words, in whatever tokens of theirs."""
    n = common_prefix(tokens, words)
    if n < len(words):
        missing = b"".join(token_bytes(token) for token in words[n:])
        while missing and n < len(tokens) and missing.startswith(piece := token_bytes(tokens[n])):
            missing, n = missing[len(piece) :], n + 1
        if missing:
            return False
    return is_boundary(tokens, n, token_bytes, unspaced)


def num_unheld(
    tokens: Sequence[int], token_bytes: TokenBytes, *, held_words: int, unspaced: bool
) -> int:
    """Tokens in front of the held words, and of the signs at the very end."""
    end = len(tokens)
    while end > 0 and is_punctuation(token_bytes(tokens[end - 1])):
        end -= 1
    for _ in range(held_words):
        end = _word_start(tokens, end, token_bytes, unspaced)
    return end


class Letters(NamedTuple):
    """What of a text can be heard: no case, no signs, no blanks. ends: how many letters the first
    0, 1, 2 ... tokens have. word_ends: those after which a word ends."""

    text: str
    ends: tuple[int, ...]
    word_ends: frozenset[int]

    @classmethod
    def of(cls, tokens: Sequence[int], token_bytes: TokenBytes, unspaced: bool = False) -> Letters:
        """Of token ids. unspaced: of a language that has no blanks between words."""
        spelt = [token_bytes(token) for token in tokens]
        pieces = list(map(_letters, spelt))
        whole = [letters for letters, _ in pieces if letters is not None]
        is_whole = len(whole) == len(pieces)
        if not is_whole:
            decoder = codecs.getincrementaldecoder("utf-8")("replace")
            whole = [audible(decoder.decode(data)) for data in spelt]
        ends = tuple(accumulate(map(len, whole), initial=0))
        if is_whole and unspaced:
            word_ends = frozenset(ends)
        elif unspaced:
            bounds = (n for n in range(len(ends)) if is_boundary(tokens, n, token_bytes, unspaced))
            word_ends = frozenset(ends[n] for n in bounds)
        else:
            inner = [end for end, (_, begins) in zip(ends, pieces, strict=False) if begins]
            word_ends = frozenset((0, *inner, ends[-1]))
        return cls("".join(whole), ends, word_ends)

    def num_alike(self, other: Letters) -> int:
        """Letters that both begin with."""
        return len(commonprefix([self.text, other.text]))

    def num_tokens(self, num_letters: int) -> int | None:
        """Fewest leading tokens that have so many letters; None if a word goes on there."""
        return self.ends.index(num_letters) if num_letters in self.word_ends else None


def agreed_letters(
    older: Iterable[Sequence[int]],
    new: Sequence[int],
    token_bytes: TokenBytes,
    *,
    unspaced: bool = False,
    limit: int,
    share: float = 1.0,
) -> int:
    """Number of leading tokens of new that are whole words of the same letters in all older, or in
    such a share of new and older.

    A model that cannot make up its mind about a comma goes on so for seconds, while everything
    behind it is clear. limit: no more tokens than this. Signs at the end are kept back.
    """
    letters = Letters.of(new, token_bytes, unspaced)
    olds = [Letters.of(old, token_bytes, unspaced) for old in older]
    needed = math.ceil(share * (len(olds) + 1)) - 1  # beside new
    if needed < 1:
        return 0
    alike = [letters.num_alike(old) for old in olds]
    reach = sorted(alike)[-needed]  # so many letters enough of them begin with
    n = limit
    while n > 0:
        end = letters.ends[n]
        if (
            end <= reach
            and is_boundary(new, n, token_bytes, unspaced)
            and not is_punctuation(token_bytes(new[n - 1]))
        ):
            having = sum(
                end <= count and end in old.word_ends
                for old, count in zip(olds, alike, strict=True)
            )
            if having >= needed:
                break
        n -= 1
    return n


def _word_start(tokens: Sequence[int], end: int, token_bytes: TokenBytes, unspaced: bool) -> int:
    """Where the word that ends at `end` begins."""
    start = max(0, end - 1)
    while start > 0 and not is_boundary(tokens, start, token_bytes, unspaced):
        start -= 1
    return start


def trim_loop(tokens: Sequence[int], least: int = 4) -> list[int]:
    """tokens without the repetitions of the phrase they end with (one saying of it is kept). least:
    how often it has to come, if it is of several tokens."""
    kept = list(tokens)
    found = [(0, 0, 0)]
    for n in range(1, min(24, len(kept) // 2) + 1):
        repeats = 1
        while kept[-n * (repeats + 1) : -n * repeats] == kept[-n:]:
            repeats += 1
        if repeats >= (8 if n == 1 else least) and (n == 1 or len(set(kept[-n:])) > 1):
            found.append((n * repeats, -n, n * (repeats - 1)))
    _, _, again = max(found)  # the longest stretch of the shortest phrase
    return kept[: len(kept) - again]
