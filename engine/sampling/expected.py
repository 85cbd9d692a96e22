"""Words that a speaker is expected to say, as token sequences that are heard more readily. Pure.

Names that a model has never read lose by a little, token after token. So each token that begins or
continues an expected word is lifted by some nats before the choice. What keeps that honest:

- A word begins only where the model is not sure of its own choice, and goes on only with tokens
  that it holds not much less likely than its own. A whole word may lose so much to the model's own
  choices, and no more.
- A word that was begun and is not finished, or goes on with other letters, or lost too much, is
  taken back: the text is cut in front of it, and goes on as if that word were not expected there.

All depends on the tokens so far alone (and on what was taken back), not on how they came about: a
draft is verified against the same choices, and in a batch as alone.
Source of the idea: shallow fusion with a prefix tree (Zhao et al. 2019, "Shallow-Fusion End-to-End
Contextual Biasing").
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

MOST_TAKEN_BACK = 24  # words of one answer; from then on nothing is lifted, so that it ends


@dataclass(frozen=True, slots=True)
class Strength:
    """How readily words are heard. begin, go_on: nats by which their first token is lifted, and
    those behind it. sure: probability of the model's own choice from which on no word begins.
    most_lost: nats that a token of a word may lose to the model's own choice, on average."""

    begin: float = 5.0
    go_on: float = 8.0
    sure: float = 0.5
    most_lost: float = 2.5


# The best of three that were tried on one half of `benchmarks.keywords`, with tiny.en alone.
STRENGTH = Strength()


class Lift(NamedTuple):
    """A token is lifted by so many nats, if the log-probability of the best is below that."""

    token: int
    nats: float
    below: float


Begun = tuple[int, int]  # (place, token) with which a word begins
Encode = Callable[[str], list[int]]
BytesOf = Callable[[int], bytes]


@dataclass(slots=True)
class _Node:
    next: dict[int, _Node] = field(default_factory=dict)
    is_word: bool = False  # a word may end here


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
        self._strength = strength or STRENGTH
        self._spaced, self._bare = _Node(), _Node()  # behind a space, behind a sign or nothing
        self._longest = 0
        for word in words:
            for spelling in _spellings(word):
                if spelling:
                    self._add(self._spaced, encode(" " + spelling))
                    self._add(self._bare, encode(spelling))

    def _add(self, node: _Node, tokens: list[int]) -> None:
        self._longest = max(self._longest, len(tokens))
        for token in tokens:
            node = node.next.setdefault(token, _Node())
        node.is_word = True

    def lifts(self, said: Sequence[int], refused: Collection[Begun] = ()) -> list[Lift]:
        """What is lifted behind the tokens said. refused: words that were taken back."""
        if len(refused) >= MOST_TAKEN_BACK:
            return []
        at, strength = len(said), self._strength
        nexts = {token for _, node in self._open(said, refused) for token in node.next}
        sure = math.log(strength.sure)
        return [Lift(token, strength.go_on, math.inf) for token in nexts] + [
            Lift(token, strength.begin, sure)
            for token in self._root(said, at)
            if token not in nexts and (at, token) not in refused
        ]

    def look(
        self, said: Sequence[int], refused: Collection[Begun] = (), *, is_over: bool
    ) -> tuple[int, bool] | None:
        """(where a word begins that is over before the last token said, or before the end of the
        text; whether it was finished); None: there is nothing of the kind."""
        before = said if is_over else said[:-1]
        goes_on = not is_over and _is_letter(self._token_bytes(said[-1]))
        for start, node in self._open(before, refused):
            if not is_over and said[-1] in node.next:
                return None  # still being said
            return start, node.is_word and not goes_on
        return None

    def is_believed(self, lost: Sequence[float]) -> bool:
        """Whether a finished word was said. lost: nats, of each token to the model's own choice."""
        return sum(lost) <= self._strength.most_lost * len(lost)

    def _root(self, said: Sequence[int], start: int) -> dict[int, _Node]:
        """Tokens that may begin a word at that place."""
        before = self._token_bytes(said[start - 1]) if start else b""
        return {**self._spaced.next, **({} if _ends_in_letter(before) else self._bare.next)}

    def _open(self, said: Sequence[int], refused: Collection[Begun]) -> list[tuple[int, _Node]]:
        """Words that all tokens from some place on begin: (that place, how far), longest first."""
        found = []
        for start in range(max(0, len(said) - self._longest), len(said)):
            if (start, said[start]) in refused:
                continue
            node = self._walk(said, start)
            if node is not None:
                found.append((start, node))
        return found

    def _walk(self, said: Sequence[int], start: int) -> _Node | None:
        is_bare = said[start] in self._bare.next and said[start] not in self._spaced.next
        if is_bare and start and _ends_in_letter(self._token_bytes(said[start - 1])):
            return None
        node = self._bare if is_bare else self._spaced
        for token in said[start:]:
            if token not in node.next:
                return None
            node = node.next[token]
        return node


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
