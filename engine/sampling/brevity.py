"""Ending an answer that keeps to a schema before its tokens are used up.

A model may go on in a string, a number or a list for ever, and JSON that is cut off is none. So
where nobody said how long an answer may be, the last quarter of what it may have is there to end
it: as soon as something can be ended, nothing else may come.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Bits = NDArray[np.int32]
WORD = 32


class EndingTokens:
    """Of one vocabulary: which tokens end something in JSON. spellings: the bytes of each token.
    end_tokens: those that end the answer; the special ones among the others end nothing."""

    def __init__(
        self, spellings: Sequence[bytes], special: Iterable[int], end_tokens: Iterable[int]
    ) -> None:
        apart = set(special)
        first = {
            token: text[:1]
            for token, text in enumerate(spellings)
            if text[:1] in (b'"', b"]", b"}", b",") and token not in apart
        }
        size = len(spellings)
        # In this order: inside a string a bracket ends nothing. Where a quotation mark begins a
        # string, the next one ends it. A comma ends a number behind which more has to come.
        self._kinds = [
            _bits(size, end_tokens),
            _bits(size, (token for token, mark in first.items() if mark == b'"')),
            _bits(size, (token for token, mark in first.items() if mark in (b"]", b"}"))),
            _bits(size, (token for token, mark in first.items() if mark == b",")),
        ]

    def keep(self, bits: Bits) -> None:
        """bits: [ceil(vocab / 32)] of the tokens that may come; of those that end something the
        first kind is left, all of them if there are none."""
        for kind in self._kinds:
            left = bits & kind
            if left.any():
                bits[:] = left
                return


@dataclass(slots=True)
class TokenBudget:
    """total: tokens that an answer may have, its thinking among them."""

    total: int
    used: int = 0
    thought: int = 0  # of them, before the answer itself began

    @property
    def is_nearly_spent(self) -> bool:
        """Whether three quarters are used of what there was when the answer itself began."""
        return 4 * (self.used - self.thought) >= 3 * (self.total - self.thought)


def _bits(size: int, tokens: Iterable[int]) -> Bits:
    flags = np.zeros(-(-size // WORD) * WORD, np.uint8)
    flags[list(tokens)] = 1
    return np.packbits(flags, bitorder="little").view(np.int32)
