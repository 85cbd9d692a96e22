"""Which tokens a Whisper checkpoint may say next, as masks on logits.

Source: openai/whisper `decoding.py` (SuppressTokens, SuppressBlank, ApplyTimestampRules). One
difference: the end token is allowed at once, because a live window may hold nothing but silence.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from engine.tokenizer import WhisperTokenizer

MAX_INITIAL_TIMESTAMP = 50  # steps of 0.02 s: the first segment starts within a second


class TokenRules:
    """Masks for one checkpoint, made once. vocab_size: columns of the logits."""

    def __init__(self, tokenizer: WhisperTokenizer, vocab_size: int, device: torch.device) -> None:
        self._eot = tokenizer.eot
        self._first_stamp = tokenizer.timestamp_begin
        self._no_timestamps = tokenizer.no_timestamps
        never = [t for t in tokenizer.suppress_tokens if 0 <= t < vocab_size and t != self._eot]
        text = torch.zeros(vocab_size, device=device)
        text[never] = float("-inf")
        text[self._eot + 1 :] = float("-inf")  # special tokens lie above the end token
        self._text = text
        stamps = text.clone()
        stamps[self._first_stamp :] = 0.0
        self._stamps = stamps
        first = text.clone()
        blanks = [t for t in tokenizer.begin_suppress_tokens if 0 <= t < self._eot]
        first[blanks] = float("-inf")
        self._first = first
        languages = torch.full((vocab_size,), float("-inf"), device=device)
        languages[list(tokenizer.languages.values())] = 0.0
        self._languages = languages

    def language(self, logits: Tensor) -> Tensor:
        """logits [vocab] with nothing but language tokens left."""
        return logits + self._languages

    def text(self, logits: Tensor, *, is_first: bool) -> Tensor:
        """logits [vocab] without special tokens and timestamps."""
        return logits + (self._first if is_first else self._text)

    def texts(self, logits: Tensor, are_first: Sequence[bool]) -> Tensor:
        """`text` of many rows at once: logits [n, vocab]."""
        if not any(are_first):
            return logits + self._text
        if all(are_first):
            return logits + self._first
        return logits + torch.stack([self._first if first else self._text for first in are_first])

    def timestamps(self, logits: Tensor, history: tuple[int, ...]) -> Tensor:
        """logits [vocab] under the timestamp rules. history: tokens after the prompt so far.

        Timestamps come in pairs, never go back, and the first token is one; when all timestamps
        together are likelier than any text token, a timestamp it must be.
        """
        first = self._first_stamp
        masked = logits + self._stamps
        if not history:
            masked[:first] = float("-inf")
            masked[first + MAX_INITIAL_TIMESTAMP + 1 :] = float("-inf")
            return masked
        stamps = [t for t in history if t >= first]
        last_is_stamp = history[-1] >= first
        before_is_stamp = len(history) < 2 or history[-2] >= first
        if last_is_stamp and before_is_stamp:
            masked[first:] = float("-inf")
        elif last_is_stamp:
            masked[: self._eot] = float("-inf")
        if stamps:
            # An end may equal nothing before it; only a segment's start may repeat the last end.
            low = stamps[-1] if last_is_stamp and not before_is_stamp else stamps[-1] + 1
            masked[first:low] = float("-inf")
        logprobs = masked.float().log_softmax(-1)
        # No `if`: that would wait for the device.
        is_stamp = logprobs[first:].logsumexp(-1) > logprobs[:first].max()
        masked[:first].masked_fill_(is_stamp, float("-inf"))
        return masked
