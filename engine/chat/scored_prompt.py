"""How probable the tokens of a prompt are, told as numbers and put together as it is read. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lookhear.engine.messages import PromptTokens
from lookhear.engine.paged.wanted.prompts import Scored


class ScoredPrompt:
    """tokens: the prompt's. most: of the likeliest tokens of each place, so many. spell: the bytes
    of a token."""

    def __init__(self, tokens: Sequence[int], most: int, spell: Callable[[int], bytes]) -> None:
        self._most = most
        self._spell = spell
        self._places: dict[int, int] = {}  # of tokens among the pieces
        first = self._place(tokens[0])
        self._told = PromptTokens([], [first], [0.0], [[]], [[]])
        self._tokens = tokens

    def take(self, scores: Sequence[Scored]) -> None:
        """Of the tokens behind the first, as far as they were read: what is new of them."""
        told, place = self._told, self._place
        known = len(told.tokens)
        for score in scores[known - 1 :]:
            told.tokens.append(place(self._tokens[len(told.tokens)]))
            told.logprobs.append(score.logprob)
            told.top.append([place(token) for token, _ in score.top[: self._most]])
            told.top_logprobs.append([logprob for _, logprob in score.top[: self._most]])

    def whole(self) -> PromptTokens:
        """All of it was read."""
        assert len(self._told.tokens) == len(self._tokens)
        self._told.pieces.extend(map(self._spell, self._places))
        return self._told

    def _place(self, token: int) -> int:
        return self._places.setdefault(token, len(self._places))
