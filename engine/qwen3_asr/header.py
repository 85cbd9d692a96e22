"""Answers of Qwen3-ASR in one of some languages: which tokens may come in their header. Pure.

A header is a few tokens ("language English<asr_text>"), and the model writes it before any word. So
whoever names languages has one of these headers, whatever the model would have written; the words
behind it are free.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from lookhear.engine.qwen3_asr.prompt import ASR_TEXT, language_name
from lookhear.engine.tokenizers.qwen import QwenTokenizer

NOBODY = "None"  # what it names where nobody speaks
WORD = 32  # tokens that one number tells of

Header = tuple[int, ...]


class HeaderMatcher:
    """left: what may still come of each header that fits so far; none: one is written."""

    def __init__(self, left: tuple[Header, ...]) -> None:
        self._left = left

    def fill(self, bits: NDArray[np.int32]) -> None:
        """See `TokenMask`."""
        bits.fill(0 if self._left else -1)
        words = bits.view(np.uint32)
        for header in self._left:
            words[header[0] // WORD] |= np.uint32(1 << header[0] % WORD)

    def forced(self) -> list[int]:
        """See `Matcher`."""
        return list(self._left[0]) if len(self._left) == 1 else []

    def allowed(self, tokens: Sequence[int]) -> int:
        """See `Matcher`."""
        left = self._left
        for count, token in enumerate(tokens):
            if not left:
                break
            if all(header[0] != token for header in left):
                return count
            left = _behind(left, token)
        return len(tokens)

    def behind(self, token: int) -> HeaderMatcher:
        """See `Matcher`; behind a token that may not come anything may, as nobody will ask."""
        return HeaderMatcher(_behind(self._left, token))

    def accept(self, token: int) -> None:
        """See `Matcher`."""
        self._left = _behind(self._left, token)


def _behind(left: tuple[Header, ...], token: int) -> tuple[Header, ...]:
    return tuple(header[1:] for header in left if header[0] == token and header[1:])


@dataclass(frozen=True, slots=True)
class HeaderGrammar:
    """Of answers that begin with one of the headers. See `Grammar`."""

    headers: tuple[Header, ...]
    takes_draft: ClassVar[bool] = True

    @classmethod
    def of(cls, tokenizer: QwenTokenizer, languages: Sequence[str]) -> HeaderGrammar:
        """languages: ISO codes or names that the model knows."""
        names = [*filter(None, map(language_name, languages)), NOBODY]
        tag = tokenizer.token(ASR_TEXT)
        return cls(tuple((*tokenizer.encode(f"language {name}"), tag) for name in names))

    def start(self, budget: int | None = None) -> HeaderMatcher:
        """See `Grammar`. budget: means nothing here."""
        return HeaderMatcher(self.headers)
