"""A scripted listener for policy tests: words with times, and a model that hears them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from lookhear.engine.core.request import Result, StopReason
from lookhear.engine.messages import (
    SAMPLE_RATE,
    Event,
    TextCommitted,
    TextProvisional,
    TurnCompleted,
)
from lookhear.engine.speech.live import LiveTurn
from lookhear.engine.whisper.request import WhisperRequest

END = 50_257
FIRST_STAMP = 100_000
LAST_STAMP = FIRST_STAMP + 1500
PROMPT = 996  # stands for any that a client gives


def front(request: WhisperRequest) -> int:
    """Samples in front that were said before."""
    return request.settled[0].samples if request.timestamps else 0


class SpeltTokens:
    """Tokens 0..n-1 are the words of a script; enough of a tokenizer for `Prompter`'s users."""

    def __init__(self, words: Sequence[str]) -> None:
        self.words = list(words)
        self.max_prompt = 64
        self.detects_language = True
        self.languages = ["de", "en"]

    def token_bytes(self, token: int) -> bytes:
        return self.words[token].encode()

    def decode_bytes(self, tokens: Sequence[int]) -> bytes:
        return b"".join(self.token_bytes(token) for token in tokens)

    def language_token(self, code: str | None) -> int | None:
        return None if code is None else 1000 + self.languages.index(code)

    def language_code(self, token: int | None) -> str | None:
        return None if token is None else self.languages[token - 1000]

    def language_tokens(self, of: Mapping[str, float]) -> dict[int, float]:
        return {1000 + self.languages.index(code): value for code, value in of.items()}

    def timestamp(self, seconds: float) -> int:
        return min(LAST_STAMP, FIRST_STAMP + round(seconds / 0.02))

    def timestamps_from(self, seconds: float) -> range:
        return range(self.timestamp(seconds), LAST_STAMP + 1)

    def timestamp_seconds(self, token: int) -> float | None:
        return None if token < FIRST_STAMP else 0.02 * (token - FIRST_STAMP)

    def comma(self, tokens: Sequence[int], language: str | None) -> tuple[int, ...]:
        return ()  # a script has no signs but those of its words

    def capital(self, tokens: Sequence[int]) -> tuple[int, ...]:
        return tuple(tokens)  # nor other words

    def prompt(
        self, text: str, earlier: Sequence[int], task: str, *, timestamps: bool
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        before = (*[PROMPT][: len(text)], *earlier)
        return ((999, *before, 998) if before else (998,)), (997,)

    def expected(self, words: tuple[str, ...]) -> None:
        assert not words, "nobody expects anything in a script"


class Speech:
    """words[i] is said from times[i][0] to times[i][1] seconds. before: what was said in the turn
    before; its words have the tokens below those of this one."""

    def __init__(
        self,
        words: Sequence[str],
        times: Sequence[tuple[float, float]],
        before: Speech | None = None,
    ) -> None:
        self.words, self.times = list(words), list(times)
        known: list[str] = before.vocabulary.words if before else []
        self.first = len(known)
        self.vocabulary: SpeltTokens = SpeltTokens([*known, *words])
        self.duration = times[-1][1] + 1.2 if times else 2.0

    def samples(self, start: int, end: int) -> np.ndarray:
        """Loud while somebody speaks, silent else."""
        samples = np.zeros(end - start, np.float32)
        for word in self.times:
            a, b = (max(0, math.ceil(seconds * SAMPLE_RATE) - start) for seconds in word)
            samples[a:b] = 1.0
        return samples

    def voiced_until(self, position: int) -> int:
        """What the voice detector would say at this position, knowing nothing of later."""
        ends = [min(b, position / SAMPLE_RATE) for a, b in self.times if a < position / SAMPLE_RATE]
        return round(max(ends, default=0.0) * SAMPLE_RATE)

    def hear(self, request: WhisperRequest, start: int) -> Result:
        """What a perfect model hears in request.samples, which behind those of earlier turns begin
        at position start: a word once three quarters of it were said. With timestamps it writes two
        of them where somebody paused."""
        start_s = (start - front(request)) / SAMPLE_RATE
        end_s = start_s + len(request.samples) / SAMPLE_RATE
        heard = [
            i
            for i, (a, b) in enumerate(self.times)
            if a >= start / SAMPLE_RATE - 0.05 and a + 0.75 * (b - a) <= end_s
        ]
        rest: list[int] = []
        for i in heard:
            if i + self.first in request.prefix:
                continue
            a, b = self.times[i]
            if request.timestamps and i and a - self.times[i - 1][1] > 0.5:
                ends = (self.times[i - 1][1], a)
                rest += [self.vocabulary.timestamp(max(0.0, t - start_s)) for t in ends]
            rest.append(i + self.first)
        times = tuple(
            (self.times[i - self.first][0] - start_s, self.times[i - self.first][1] - start_s)
            if self.first <= i < FIRST_STAMP
            else (0.0, 0.0)
            for i in (*request.prefix, *rest)
        )
        return Result(
            key=request.key,
            tokens=tuple(rest),
            logprobs=(-0.1,) * len(rest),
            language=request.language if request.language is not None else 1001,
            no_speech_prob=0.0,
            num_accepted=0,
            stop=StopReason.END,
            token_times=times if request.align else None,
        )


def kept(request: Any) -> Any:
    """A request to be looked at when all is over: the turn's own memory is used again."""
    if not isinstance(request, WhisperRequest):
        return request
    return replace(request, samples=request.samples.copy())


class Driver:
    """Feeds a turn and answers its requests at once; keeps what came out."""

    def __init__(self, speech: Speech, turn: LiveTurn, lead_in: int) -> None:
        self.speech, self.turn, self.lead_in = speech, turn, lead_in
        self.events: list[Event] = []
        self.requests: list[WhisperRequest] = []
        self.position = 0

    def feed(self, seconds: float) -> None:
        end = self.position + round(seconds * SAMPLE_RATE)
        self.turn.append(self.speech.samples(self.position, end), self.speech.voiced_until(end))
        self.position = end
        self.events += self.turn.settle()
        self.work()

    def work(self) -> None:
        while self.turn.wants_request():
            request = self.turn.make_request()
            self.requests.append(kept(request))
            # The silence in front belongs to the request, not to the turn.
            start = self.turn.segment_start - self.lead_in
            self.events += self.turn.absorb(self.speech.hear(request, start))

    def finish(self) -> TurnCompleted:
        self.turn.end()
        self.events += self.turn.settle()
        self.work()
        last = self.events[-1]
        assert isinstance(last, TurnCompleted), last
        return last

    @property
    def committed(self) -> str:
        return "".join(e.text for e in self.events if isinstance(e, TextCommitted))

    @property
    def provisional(self) -> list[str]:
        return [e.text for e in self.events if isinstance(e, TextProvisional)]
