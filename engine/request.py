"""One decoder request, what came of it, and its progress while it runs. Pure: no tensors.

Token layout of a request (Whisper; an English-only checkpoint has no language and task token)::

    [<|startofprev|> text] <|startoftranscript|> [language] [task] [<|notimestamps|>] prefix draft
    |----------------- head -------------------|           |--------- tail ---------| forced |
                                                                            to be verified --|

The language may be a hole that the first pass fills from the logits after the start token.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

import numpy as np
from numpy.typing import NDArray


class Priority(Enum):
    """live: somebody is speaking, deadlines matter. batch: a file, whenever there is room."""

    LIVE = 0
    BATCH = 1


@dataclass(frozen=True, slots=True)
class Request:
    """What to encode and what to decode. Immutable; see the module docstring for the layout.

    samples: mono float32 at 16 kHz, at most window_samples long; the encoder sees them padded with
    zeros to window_samples. language: token id, or None to detect (multilingual checkpoints).
    """

    key: str
    priority: Priority
    samples: NDArray[np.float32]
    window_samples: int
    head: tuple[int, ...]
    language: int | None
    detect_language: bool
    tail: tuple[int, ...]
    prefix: tuple[int, ...] = ()
    draft: tuple[int, ...] = ()
    max_new_tokens: int = 224
    timestamps: bool = False
    temperature: float = 0.0
    seed: int = 0
    align: bool = False


@dataclass(frozen=True, slots=True)
class Result:
    """tokens: text (and timestamp) tokens after the forced prefix, without the end token.

    logprobs: natural log-probability per token. no_speech_prob: probability of <|nospeech|> at the
    start token. num_accepted: draft tokens that verification kept. stop: "end", "length" or
    "repetition". token_times: (start, end) seconds in the window per prefix+tokens token, if
    asked for.
    """

    key: str
    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]
    language: int | None
    no_speech_prob: float
    num_accepted: int
    stop: str
    token_times: tuple[tuple[float, float], ...] | None = None


class Phase(Enum):
    DETECT = "detect"  # head fed, waiting for the language
    PREFILL = "prefill"  # tail, prefix and draft
    DECODE = "decode"  # one token at a time
    DONE = "done"


@dataclass(frozen=True, slots=True)
class LogitsRow:
    """One position whose logits are wanted. index: offset in the fed queries.
    num_sampled: text tokens before it (0: the first one after the forced prefix)."""

    index: int
    purpose: str  # "no_speech", "language", "token"
    history: tuple[int, ...] = ()


def is_looping(tokens: list[int]) -> bool:
    """Whether the tail of tokens is one phrase said over and over (a decoder stuck in a loop).

    A phrase of n tokens must come 4 times, a single token 8 times, so that a spoken
    "no no no no" passes.
    """
    for n in range(1, 25):
        repeats = 8 if n == 1 else 4
        if len(tokens) < n * repeats:
            continue
        phrase = tokens[-n:]
        if all(tokens[-n * (r + 1) : -n * r] == phrase for r in range(1, repeats)):
            return True
    return False


@dataclass(slots=True)
class Sequence:
    """A running request: which tokens to feed next, and what the sampled ones mean.

    fed counts the context tokens whose keys and values are in the cache; rejected drafts are
    simply overwritten, because fed does not count them.
    """

    request: Request
    end_token: int
    context_limit: int  # tokens the decoder can hold
    row: int = 0
    slot: int = 0
    phase: Phase = Phase.PREFILL
    context: list[int] = field(default_factory=list)
    fed: int = 0
    language: int | None = None
    no_speech_prob: float = 0.0
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    num_accepted: int = 0
    stop: str = ""
    token_times: tuple[tuple[float, float], ...] | None = None

    def __post_init__(self) -> None:
        self.language = self.request.language
        self.context = list(self.request.head)
        if self.request.detect_language and self.language is None:
            self.phase = Phase.DETECT
        else:
            self._complete_prompt()

    def _complete_prompt(self) -> None:
        if self.language is not None:
            self.context.append(self.language)
        self.context.extend(self.request.tail)
        self.context.extend(self.request.prefix)
        self.phase = Phase.PREFILL

    @property
    def _draft(self) -> tuple[int, ...]:
        if self.phase is not Phase.PREFILL:
            return ()
        room = min(self.context_limit - len(self.context), self.request.max_new_tokens)
        return self.request.draft[: max(0, room)]

    def queries(self) -> list[int]:
        """Token ids to feed in this step, at positions fed, fed+1, ..."""
        return self.context[self.fed :] + list(self._draft)

    def logits_rows(self) -> list[LogitsRow]:
        """The positions of `queries` whose logits this step needs, in order."""
        known = len(self.context) - self.fed
        start = len(self.request.head) - 1 - self.fed  # the <|startoftranscript|> position
        rows = [LogitsRow(start, "no_speech")] if start >= 0 else []
        if self.phase is Phase.DETECT:
            return [*rows, LogitsRow(known - 1, "language")]
        draft = self._draft
        for i in range(len(draft) + 1):
            history = (*self.tokens, *draft[:i])
            rows.append(LogitsRow(known - 1 + i, "token", history))
        return rows

    def absorb_language(self, token: int) -> None:
        """The first pass is done: token is the detected language."""
        assert self.phase is Phase.DETECT
        self.fed = len(self.context)
        self.language = token
        self._complete_prompt()

    def absorb(self, sampled: list[int], logprobs: list[float]) -> None:
        """Take the tokens sampled at the "token" rows: the draft while it agrees, then one more.

        sampled[i] is the model's choice given the draft up to i; it counts only while all draft
        tokens before it were the model's own choice. So the outcome is the one of plain decoding.
        """
        draft = self._draft
        assert len(sampled) == len(draft) + 1, (len(sampled), len(draft))
        self.fed = len(self.context)
        self.phase = Phase.DECODE
        for i, (token, logprob) in enumerate(zip(sampled, logprobs, strict=True)):
            self._append(token, logprob)
            if self.phase is Phase.DONE:
                return
            if i < len(draft):
                if draft[i] != token:
                    return
                self.num_accepted += 1
                self.fed += 1

    def _append(self, token: int, logprob: float) -> None:
        if token == self.end_token:
            self.phase, self.stop = Phase.DONE, "end"
            return
        self.tokens.append(token)
        self.logprobs.append(logprob)
        self.context.append(token)
        if is_looping(self.tokens):
            self.phase, self.stop = Phase.DONE, "repetition"
        elif (
            len(self.tokens) >= self.request.max_new_tokens
            or len(self.context) >= self.context_limit
        ):
            self.phase, self.stop = Phase.DONE, "length"

    def result(self) -> Result:
        """What came of the request. Only when done."""
        assert self.phase is Phase.DONE
        return Result(
            key=self.request.key,
            tokens=tuple(self.tokens),
            logprobs=tuple(self.logprobs),
            language=self.language,
            no_speech_prob=self.no_speech_prob,
            num_accepted=self.num_accepted,
            stop=self.stop,
            token_times=self.token_times,
        )
