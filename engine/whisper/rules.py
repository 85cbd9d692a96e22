"""Which tokens a Whisper checkpoint may say next, as masks on logits.

Source: openai/whisper `decoding.py` (SuppressTokens, SuppressBlank, ApplyTimestampRules). One
difference: the end token is allowed at once, because a live window may hold nothing but silence.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

import torch
from torch import Tensor

from lookhear.engine.device.staging import to_device
from lookhear.engine.tokenizers.whisper import WhisperTokenizer

MAX_INITIAL_TIMESTAMP = 50  # steps of 0.02 s: the first segment starts within a second


class Rule(IntEnum):
    """What may come next, if timestamps do not matter. PLAIN: anything. FIRST: the first text of an
    answer, which is no blank."""

    PLAIN = 0
    TEXT = 1
    FIRST = 2


class TokenRules:
    """Masks for one checkpoint, made once. vocab_size: columns of the logits."""

    def __init__(self, tokenizer: WhisperTokenizer, vocab_size: int, device: torch.device) -> None:
        self._eot = tokenizer.eot
        self._first_stamp = tokenizer.timestamp_begin
        never = [t for t in tokenizer.suppress_tokens if 0 <= t < vocab_size and t != self._eot]
        text = torch.zeros(vocab_size, device=device)
        text[never] = float("-inf")
        text[self._eot + 1 :] = float("-inf")  # special tokens lie above the end token
        stamps = text.clone()
        stamps[self._first_stamp :] = 0.0
        self._stamps = stamps
        first = text.clone()
        blanks = [t for t in tokenizer.begin_suppress_tokens if 0 <= t < self._eot]
        first[blanks] = float("-inf")
        self._masks = torch.stack([torch.zeros_like(text), text, first])  # by Rule

    def masked(self, logits: Tensor, rules: Sequence[Rule]) -> Tensor:
        """logits [n, vocab] under a rule for each row, or one for all: in one operation where they
        are alike, in two where they are not, however many rows there are."""
        if len(set(rules)) == 1:
            return logits if rules[0] is Rule.PLAIN else logits + self._masks[rules[0]]
        assert len(rules) == len(logits), (len(rules), len(logits))
        return logits + self._masks[to_device(rules, torch.int64, logits.device)]

    def timestamps(self, logits: Tensor, histories: Sequence[tuple[int, ...]]) -> Tensor:
        """logits [n, vocab] under the timestamp rules. histories: of each row, the tokens after the
        prompt so far.

        Timestamps come in pairs, never go back, and the first token is one; when all timestamps
        together are likelier than any text token, a timestamp it must be.
        """
        first = self._first_stamp
        masked = logits + self._stamps
        for row, history in zip(masked, histories, strict=True):
            if not history:
                row[:first] = float("-inf")
                row[first + MAX_INITIAL_TIMESTAMP + 1 :] = float("-inf")
                continue
            stamps = [t for t in history if t >= first]
            last_is_stamp = history[-1] >= first
            before_is_stamp = len(history) < 2 or history[-2] >= first
            if last_is_stamp and before_is_stamp:
                row[first:] = float("-inf")
            elif last_is_stamp:
                row[: self._eot] = float("-inf")
            if stamps:
                # An end may equal nothing before it; only a start may repeat the last end.
                low = stamps[-1] if last_is_stamp and not before_is_stamp else stamps[-1] + 1
                row[first:low] = float("-inf")
        # No `if`: that would wait for the device.
        is_stamp = masked[:, first:].logsumexp(-1) > masked[:, :first].amax(-1)
        masked[:, :first].masked_fill_(is_stamp[:, None], float("-inf"))
        return masked
