"""Tokens to text, piece by piece, without ever showing half a character."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterable


class IncrementalDetokenizer:
    """Text of a growing token sequence. What was returned is never taken back.

    token_bytes: UTF-8 bytes of one token, possibly an incomplete character; b"" for special ones.
    Joined results of `push` and the last `flush` equal the decoded bytes of all tokens.
    """

    def __init__(self, token_bytes: Callable[[int], bytes], unfinished: bytes = b"") -> None:
        """unfinished: of another one, to go on where that is."""
        self._token_bytes = token_bytes
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._decoder.setstate((unfinished, 0))

    @property
    def unfinished(self) -> bytes:
        """Of a character that is not complete."""
        return self._decoder.getstate()[0]

    def push(self, tokens: Iterable[int]) -> str:
        """More tokens; returns the text that is certain now."""
        return self._decoder.decode(self._bytes(tokens))

    def flush(self) -> str:
        """No more tokens: an unfinished character becomes U+FFFD. Ready for a new text."""
        rest = self._decoder.decode(b"", final=True)
        self._decoder.reset()
        return rest

    def preview(self, tokens: Iterable[int]) -> str:
        """The text that `push(tokens)` would return; changes nothing."""
        state = self._decoder.getstate()
        text = self._decoder.decode(self._bytes(tokens))
        self._decoder.setstate(state)
        return text

    def _bytes(self, tokens: Iterable[int]) -> bytes:
        return b"".join(self._token_bytes(token) for token in tokens)
