"""More of a recording that a Voxtral is to hear, and what it wrote. Pure: no tensors."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from lookhear.engine.core.request import Demand, Phase, Priority, Result, StopReason

SECONDS = 0.08  # of a step
WRITING = 10  # steps in which a word is written out, at most
# Where a word began it does not say: behind the one before it, but no longer ago.
LONGEST_WORD = 0.56


@dataclass(frozen=True, slots=True)
class Marks:
    """Tokens that are no text. begin: a recording begins with it. pad: nothing is said. word: one
    follows, whose sound has ended a delay ago. end: of the recording."""

    begin: int
    pad: int
    word: int
    end: int


@dataclass(frozen=True, slots=True)
class VoxtralRequest:
    """key: of its owner, whose requests are carried out in their order. stretch: samples that its
    frames are made of, of so many steps, the first of which is number `begin` of the recording; at
    0 another one begins. is_last: there will be no more of it, and it may end. delay, left: steps,
    see `Sound`; the same in all requests of a recording."""

    key: str
    priority: Priority
    stretch: NDArray[np.float32]
    steps: int
    begin: int
    is_last: bool
    delay: int
    left: int
    draft: tuple[int, ...] = ()


@dataclass(slots=True)
class Writing:
    """Of one recording: what was written last, which the next step reads, and when words were said.
    start, end: seconds, of the word that is written now; begun: the step that began to. is_apart:
    nothing of a word was written since nothing was said."""

    token: int
    start: float = 0.0
    end: float = 0.0
    begun: int = 0
    is_apart: bool = True

    def time(self, token: int, marks: Marks, step: int) -> tuple[float, float] | None:
        """When it was said; None if it is no text. step: of the recording less silence and delay,
        which says when the word ended that begins to be written."""
        is_nothing = token in (marks.pad, marks.end)
        is_long = step - self.begun >= WRITING
        if token == marks.word or (not is_nothing and (self.is_apart or is_long)):
            over = max(0.0, (step + 1) * SECONDS)
            self.start, self.end = max(self.end, over - LONGEST_WORD), max(self.end, over)
            self.begun = step
        self.is_apart = is_nothing
        return None if is_nothing or token == marks.word else (self.start, self.end)


@dataclass(slots=True)
class VoxtralSequence:
    """It, running; satisfies `Running`. encoded, fed: steps of it that were encoded, and read by
    the decoder; writing: of its recording. is_busy: a step of it is on its way."""

    request: VoxtralRequest
    writing: Writing
    marks: Marks
    phase: Phase = Phase.PREFILL
    encoded: int = 0
    fed: int = 0
    is_busy: bool = False
    num_drafted: int = 0
    num_passes: int = 0
    _tokens: list[int] = field(default_factory=list)
    _logprobs: list[float] = field(default_factory=list)
    _times: list[tuple[float, float]] = field(default_factory=list)
    _stop: StopReason | None = None

    @property
    def key(self) -> str:
        """Its owner's."""
        return self.request.key

    @property
    def num_told(self) -> int:
        """Steps of it at whose end is known what is written: all in front of the first word that
        it may write, and one that reads the last of these."""
        told = self.request.left + self.request.delay + 1
        return max(0, min(told, self.request.begin + self.request.steps) - self.request.begin)

    def demand(self) -> Demand:
        """What is told at once, then step by step."""
        return Demand(max(1, self.num_told - self.fed), waiting=self.is_busy)

    def inputs(self, count: int) -> list[int]:
        """What the next steps read."""
        first = self.request.begin + self.fed
        told = [self.marks.pad] * count
        if first == 0:
            told[0] = self.marks.begin
        if first > self.request.left + self.request.delay:
            assert count == 1, count
            told[0] = self.writing.token
        return told

    def take(self, count: int, token: int, logprob: float) -> bool:
        """So many steps were read; what is written behind them. Returns whether that is all."""
        self.fed += count
        self.num_passes += 1
        step = self.request.begin + self.fed - 1  # the last that was read
        if step >= self.request.left + self.request.delay:
            self.writing.token = token
            at = step - self.request.left - self.request.delay
            time = self.writing.time(token, self.marks, at)
            if time is not None:
                self._tokens.append(token)
                self._logprobs.append(logprob)
                self._times.append(time)
            if token == self.marks.end:
                self._stop = StopReason.END
        is_done = self._stop is not None or self.fed >= self.request.steps
        self.phase = Phase.DONE if is_done else Phase.DECODE
        return is_done

    def result(self) -> Result:
        """Only when it is done."""
        assert self.phase is Phase.DONE
        return Result(
            key=self.key,
            tokens=tuple(self._tokens),
            logprobs=tuple(self._logprobs),
            num_accepted=0,
            stop=self._stop or StopReason.LENGTH,
            num_passes=self.num_passes,
            token_times=tuple(self._times),
        )
