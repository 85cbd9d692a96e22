"""One Whisper request and its progress while it runs. Pure: no tensors.

Token layout of a request (an English-only checkpoint has no language and task token)::

    [<|startofprev|> text] <|startoftranscript|> [language] [task] [<|notimestamps|>] prefix draft
    |----------------- head -------------------|           |--------- tail ---------| forced |
                                                                            to be verified --|

The language may be a hole that the first pass fills from the logits after the start token.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lookhear.engine.core.request import UNREAD, Answer, Demand, Phase, Priority, Result


@dataclass(frozen=True, slots=True)
class WhisperRequest:
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
class LogitsRow:
    """One position whose logits are wanted. index: offset in the fed queries. num_said: text tokens
    before it, unread ones included (0: the first one after the forced prefix); history: these
    tokens, if timestamps are wanted, for nothing else depends on them."""

    index: int
    purpose: str  # "no_speech", "language", "token"
    history: tuple[int, ...] = ()
    num_said: int = 0


class AlignedText(NamedTuple):
    """tokens: num_start from the start token on, num_text of the text, and the end token."""

    tokens: list[int]
    num_start: int
    num_text: int


@dataclass(slots=True)
class WhisperSequence:
    """A running request: which tokens to feed next, and what the sampled ones mean.

    fed counts the context tokens whose keys and values are in the cache, or will be when what was
    launched is done; rejected drafts are simply overwritten, because fed does not count them.
    unread counts tokens that were sampled in what was launched, and not read. A request whose next
    step depends on them is held until they are.
    """

    request: WhisperRequest
    end_token: int
    context_limit: int  # tokens the decoder can hold
    row: int = 0
    slot: int = 0
    phase: Phase = Phase.PREFILL
    context: list[int] = field(default_factory=list)
    fed: int = 0
    unread: int = 0
    is_encoded: bool = False
    language: int | None = None
    no_speech_prob: float = 0.0
    token_times: tuple[tuple[float, float], ...] | None = None
    answer: Answer = field(init=False)
    _depends: bool = field(init=False, default=False)  # on what was launched

    def __post_init__(self) -> None:
        self.answer = Answer(
            end_tokens=frozenset([self.end_token]), max_tokens=self.request.max_new_tokens
        )
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
        room = max(1, self.context_limit - len(self.context))
        self.answer.max_tokens = min(self.request.max_new_tokens, room)
        self.phase = Phase.PREFILL

    @property
    def key(self) -> str:
        return self.request.key

    @property
    def num_drafted(self) -> int:
        return len(self.request.draft)

    @property
    def _draft(self) -> tuple[int, ...]:
        if self.phase is not Phase.PREFILL:
            return ()
        room = min(self.context_limit - len(self.context), self.request.max_new_tokens)
        return self.request.draft[: max(0, room)]

    @property
    def _num_known(self) -> int:
        """Tokens to feed that are not guesses."""
        return len(self.context) + self.unread - self.fed

    def demand(self) -> Demand:
        """A Whisper prompt is short (448 tokens at most) and goes in one piece, and so does a text
        that is aligned."""
        if self.phase is Phase.ALIGN:
            return Demand(len(self.aligned().tokens), divisible=False, waiting=self._depends)
        # Whether the answer may go on is known before the token that makes it as long as allowed.
        is_full = len(self.answer.tokens) + self.unread >= self.answer.max_tokens
        return Demand(
            self._num_known, len(self._draft), divisible=False, waiting=self._depends or is_full
        )

    @property
    def num_queries(self) -> int:
        return self._num_known + len(self._draft)

    def queries(self) -> list[int]:
        """Token ids to feed in this step, at positions fed, fed+1, ...; UNREAD for what was sampled
        last, if nobody has read it."""
        known = self.context[self.fed :]
        return known + [UNREAD] * (self._num_known - len(known)) + list(self._draft)

    def logits_rows(self) -> list[LogitsRow]:
        """The positions of `queries` whose logits this step needs, in order."""
        known = self._num_known
        start = len(self.request.head) - 1 - self.fed  # the <|startoftranscript|> position
        rows = [LogitsRow(start, "no_speech")] if start >= 0 else []
        if self.phase is Phase.DETECT:
            return [*rows, LogitsRow(known - 1, "language")]
        draft, said = self._draft, self.answer.tokens
        for i in range(len(draft) + 1):
            # Only timestamps depend on what was said before.
            history = (*said, *draft[:i]) if self.request.timestamps else ()
            num_said = len(said) + i + self.unread
            rows.append(LogitsRow(known - 1 + i, "token", history, num_said))
        return rows

    def aligned(self) -> AlignedText:
        """What is read once more to find out when it was said. Only when the text is complete."""
        assert self.phase is Phase.ALIGN
        language = [] if self.language is None else [self.language]
        start = [self.request.head[-1], *language, *self.request.tail]
        text = [*self.request.prefix, *self.answer.tokens]
        return AlignedText([*start, *text, self.end_token], len(start), len(text))

    def launch(self) -> None:
        """A step that feeds the queries, or the text that is aligned, is on its way."""
        assert not self._depends
        depends = self.phase is Phase.DETECT or self.phase is Phase.ALIGN
        if depends or self._draft or self.request.timestamps:
            self._depends = True
            return
        self.fed += self._num_known
        self.unread += 1
        self.phase = Phase.DECODE

    def absorb_language(self, token: int) -> None:
        """The first pass is done: token is the detected language."""
        assert self.phase is Phase.DETECT
        self.fed = len(self.context)
        self._depends = False
        self.language = token
        self._complete_prompt()

    def absorb(self, sampled: list[int], logprobs: list[float]) -> None:
        """Take the tokens sampled at the "token" rows of the step that was launched first of those
        not read: the draft while it agrees, then one more."""
        self.context += self.answer.take(sampled, logprobs, self._draft)
        if self.unread:
            self.unread -= 1
        else:
            self.fed = len(self.context) - 1
        self._depends = False
        self.phase = Phase.DECODE
        if self.answer.stop:
            self.phase = Phase.ALIGN if self.request.align else Phase.DONE

    def absorb_times(self, times: tuple[tuple[float, float], ...]) -> None:
        """When the tokens of prefix and answer were said: (start, end) seconds of the window."""
        assert self.phase is Phase.ALIGN
        self.token_times = times
        self.phase = Phase.DONE

    def result(self) -> Result:
        """What came of the request. Only when done."""
        assert self.phase is Phase.DONE
        answer = self.answer
        return Result(
            key=self.key,
            tokens=tuple(answer.tokens),
            logprobs=tuple(answer.logprobs),
            num_accepted=answer.num_accepted,
            stop=answer.stop,
            num_passes=answer.num_passes,
            language=self.language,
            no_speech_prob=self.no_speech_prob,
            token_times=self.token_times,
        )
