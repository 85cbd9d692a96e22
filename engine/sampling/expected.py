"""Words that a speaker is expected to say, and where in a text one may have been said. Pure.

Names that a model has never read lose by a little, token after token, to spellings of its own. So a
text is first written as if nothing were expected; then words are tried where the model was not
sure, or began as they do: see `engine.sampling.trials`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

Encode = Callable[[str], list[int]]
BytesOf = Callable[[int], bytes]


@dataclass(frozen=True, slots=True)
class Strength:
    """How readily words are heard. behind: nats by which a word's first token may be less likely
    than the likeliest. sure: probability of the model's own token from which on no word is tried in
    its place. gain: nats in favour of a word that was not said before, for each of its tokens;
    doubt: against any. most: of words tried in one text, the likeliest. stray: tokens that the
    model may write behind a word until its text is the one without the word again."""

    behind: float = 7.0
    sure: float = 0.95
    gain: float = 3.0
    doubt: float = 3.5
    most: int = 24
    stray: int = 8


# Chosen on one half of `benchmarks.keywords`, with tiny.en.
STRENGTH = Strength()


class Told(NamedTuple):
    """Of a place in a text, in nats: how likely the token there is, the likeliest token, and those
    with which expected words begin, in the order of `ExpectedWords.firsts`. other: the likeliest
    token but that one, if asked for; else -1."""

    own: float
    best: float
    firsts: Sequence[float]
    other: int = -1
    other_logprob: float = -math.inf


@dataclass(frozen=True, slots=True)
class WrittenText:
    """tokens: with the one that ended it; told: of each."""

    tokens: tuple[int, ...]
    told: tuple[Told, ...]


class Candidate(NamedTuple):
    """A word that may have been said. at: how many tokens of the text stand in front of it."""

    at: int
    word: tuple[int, ...]


def _spellings(word: str) -> set[str]:
    """As it was given, and as it may stand in a text: names in small letters are often meant to be
    names."""
    word = " ".join(word.split())
    return {word, word[:1].upper() + word[1:], word.title()} if word.islower() else {word}


class ExpectedWords:
    """Of one request. words: as they are written. encode: tokens of a text; token_bytes: the
    opposite, of one token."""

    def __init__(
        self,
        words: Sequence[str],
        encode: Encode,
        token_bytes: BytesOf,
        strength: Strength | None = None,
    ) -> None:
        self._token_bytes = token_bytes
        self.strength = strength or STRENGTH
        spellings = [s for word in words for s in sorted(_spellings(word)) if s]
        self._spaced = _by_first(encode(" " + spelling) for spelling in spellings)
        self._bare = _by_first(encode(spelling) for spelling in spellings)
        self.firsts = tuple(sorted({*self._spaced, *self._bare}))

    def candidates(
        self, said: Sequence[int], told: Sequence[Told], start: int = 0
    ) -> list[Candidate]:
        """Where which word may stand in a text, the likeliest first. said: its tokens; told: of
        those from the place start on. Tokens without a letter, timestamps too, stay."""
        strength, sure = self.strength, math.log(self.strength.sure)
        found: list[tuple[float, Candidate]] = []
        for at, here in enumerate(told, start):
            own = said[at]
            if not self._begins_word(said, at):
                continue
            words = self._spaced if self._token_bytes(own).startswith(b" ") else self._bare
            for first, likely in zip(self.firsts, here.firsts, strict=True):
                behind = here.best - likely
                if first not in words or behind > strength.behind:
                    continue
                if here.best >= sure and first != own:
                    continue
                found += [
                    (behind, Candidate(at, word))
                    for word in words[first]
                    if tuple(said[at : at + len(word)]) != word
                ]
        found.sort(key=lambda one: one[0])
        return [candidate for _, candidate in found[: strength.most]]

    def may_follow(self, token: int) -> bool:
        """Whether a word is over where this token comes."""
        return not _is_letter(self._token_bytes(token))

    def is_like(self, one: Sequence[int], other: Sequence[int]) -> bool:
        """Whether both may be spellings of one piece of speech: by their lengths."""
        short, long = sorted(len(b"".join(map(self._token_bytes, each))) for each in (one, other))
        return long <= 2 * short + 6

    def has_word(self, tokens: Sequence[int]) -> bool:
        """Whether a word begins among them."""
        return any(self._begins_word(tokens, at) for at in range(1, len(tokens))) or (
            bool(tokens) and self._token_bytes(tokens[0]).startswith(b" ")
        )

    def _begins_word(self, said: Sequence[int], at: int) -> bool:
        text = self._token_bytes(said[at]).decode("utf-8", "replace")
        if not any(character.isalnum() or character == "\ufffd" for character in text):
            return False
        before = self._token_bytes(said[at - 1]) if at else b""
        return not (_is_letter(text.encode()) and _ends_in_letter(before))


def _by_first(words: Iterable[list[int]]) -> dict[int, list[tuple[int, ...]]]:
    found: dict[int, list[tuple[int, ...]]] = {}
    for word in dict.fromkeys(tuple(tokens) for tokens in words):
        found.setdefault(word[0], []).append(word)
    return found


def _is_letter(text: bytes) -> bool:
    """Whether it goes on with a word in front of it: a piece of a character counts, too."""
    first = text.decode("utf-8", "replace")[:1]
    return first == "\ufffd" or (first.isalnum() and not _is_wide(first))


def _ends_in_letter(text: bytes) -> bool:
    """Whether a word may be in front."""
    last = text.decode("utf-8", "replace")[-1:]
    return last == "\ufffd" or (last.isalnum() and not _is_wide(last))


def _is_wide(character: str) -> bool:
    """Whether it is of a script without spaces, where any character ends a word."""
    return character >= "\u2e80"
