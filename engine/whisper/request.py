"""One Whisper request and its progress while it runs. Pure: no tensors.

Token layout of a request (an English-only checkpoint has no language and task token)::

    [<|startofprev|> text] <|startoftranscript|> [language] [task] [<|notimestamps|>] prefix draft
    |----------------- head -------------------|           |--------- tail ---------| forced |
                                                                            to be verified --|

The language may be a hole that the first pass fills from the logits after the start token. Where
it can be guessed, the guess is verified like a draft: the pass that reads it tells whether it was
right.

If words are expected, the text is on trial when it is complete: from some place on it is decoded
again with such a word in it. What is guessed behind that is verified like a draft, too. So it is
where the model was in doubt, with its other choice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lookhear.engine.core.adapting import Adapter
from lookhear.engine.core.request import (
    UNREAD,
    Beginning,
    Demand,
    GeneratedTokens,
    Phase,
    Priority,
    RequestProgress,
    Result,
    StopReason,
)
from lookhear.engine.sampling.alternatives import Doubts
from lookhear.engine.sampling.expected import ExpectedWords, Told
from lookhear.engine.sampling.expecting import Expecting, OnTrial, rejoined
from lookhear.engine.whisper.positions import AlignedText, LogitsRow, Purpose


class Settled(NamedTuple):
    """So many samples in front are the same in all requests with that beginning."""

    beginning: Beginning
    samples: int


@dataclass(frozen=True, slots=True)
class WhisperRequest:
    """What to encode and what to decode. Immutable; see the module docstring for the layout.

    samples: mono float32 at 16 kHz, at most window_samples long; the encoder sees them padded with
    zeros to window_samples. language: token id, or None to detect (multilingual checkpoints): then
    the most probable one, its logarithm increased by its language_prior; empty: any. detects_alone:
    whether languages are asked of the audio alone, even if one is given: behind a text in the head
    everything sounds like the language of that. language_guess: of what will be detected; it saves
    a pass if it is right, and changes nothing else. end_tokens: timestamps that end the text,
    beside the end token. settled: what stands in front, the longest last. num_earlier: tokens of
    the prefix that were said before the segment: with all in front of them, they may be taken as
    the last request of the same segment read them, though there is more audio now. segment: None:
    nothing may. expected: words that are heard more readily; else doubts are thought over, if there
    are any. is_open: the audio may end in the midst of a word. at_least: text tokens behind the
    prefix that there are, as is known: before, the text is not over. align_if: whether a complete
    text is aligned all the same. adapter: what changes the model for it; then nothing is settled,
    and no segment kept. closes: whether `Result.closings` are wanted. loop_room: of its text.
    barred: the text has another token than this behind its first ones, which are so many.
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
    align_if: Callable[[Sequence[int]], bool] | None = None
    language_prior: Mapping[int, float] = field(default_factory=dict)
    language_guess: int | None = None
    end_tokens: frozenset[int] = frozenset()
    settled: tuple[Settled, ...] = ()
    segment: Beginning | None = None
    num_earlier: int = 0
    expected: ExpectedWords | None = None
    doubts: Doubts | None = None
    is_open: bool = False
    adapter: Adapter | None = None
    at_least: int = 0
    closes: bool = False
    detects_alone: bool = False
    loop_room: int = 0
    barred: tuple[int, int] | None = None


@dataclass(slots=True)
class WhisperSequence(RequestProgress[WhisperRequest]):
    """A running request: which tokens to feed next, and what the sampled ones mean."""

    end_token: int
    context_limit: int  # tokens the decoder can hold
    row: int = 0
    slot: int = 0
    is_encoded: bool = False
    language: int | None = None
    is_guess: bool = False  # whether the language is one that the step under way verifies
    languages: Mapping[int, float] = field(default_factory=dict)
    no_speech_prob: float = 0.0
    token_times: tuple[tuple[float, float], ...] | None = None
    num_earlier: int = 0  # tokens of its context that were there before the segment
    expecting: Expecting | None = None
    closings: list[float] = field(default_factory=list)  # see `Result`
    _guess: tuple[int, ...] = ()  # of what follows, to be verified
    _num_asked: int = 0  # of its context, those in front of what is on trial
    num_guessed: int = 0  # tokens of guesses, by a smaller model

    def __post_init__(self) -> None:
        expected, doubts = self.request.expected, self.request.doubts
        if expected is not None or doubts is not None:
            self.expecting = Expecting(expected, None if expected else doubts)
        self.generated = GeneratedTokens(
            end_tokens=self.request.end_tokens | {self.end_token},
            max_tokens=self.request.max_new_tokens,
            loop_room=self.request.loop_room,
        )
        self._guess = self.request.draft
        self.language = self.request.language
        self.context = list(self.request.head)
        if self.request.detects_alone:
            self.context, self.phase = [self.request.head[-1]], Phase.DETECT
            return
        if self.request.detect_language and self.language is None:
            self.language = self.request.language_guess
            self.is_guess = self.language is not None
            if not self.is_guess:
                self.phase = Phase.DETECT
                return
        self._complete_prompt()

    def _complete_prompt(self) -> None:
        if self.language is not None:
            self.context.append(self.language)
        self.context.extend(self.request.tail)
        self.num_earlier = len(self.context) + self.request.num_earlier
        self.context.extend(self.request.prefix)
        room = max(1, self.context_limit - len(self.context) - 1)  # behind it comes its end
        self.generated.max_tokens = min(self.request.max_new_tokens, room)
        self.phase = Phase.PREFILL

    def earlier(self) -> tuple[int, ...]:
        """What the next request of the same segment begins with."""
        return tuple(self.context[: self.num_earlier])

    def skip(self, tokens: tuple[int, ...], no_speech_prob: float) -> None:
        """Its row holds the keys and values of these tokens; if it begins so, they are not fed
        again. no_speech_prob: what was told behind the start token."""
        is_known = self.phase is Phase.PREFILL and not self.is_guess
        if is_known and len(tokens) < len(self.context) and tokens == self.earlier():
            self.fed, self.no_speech_prob = len(tokens), no_speech_prob

    @property
    def num_drafted(self) -> int:
        """Tokens that were guessed."""
        return len(self.request.draft) + self.num_guessed

    @property
    def may_guess(self) -> bool:
        """Whether what comes next may be guessed: greedy text of a file, all of which was read."""
        request, is_read = self.request, not (self.unread or self._depends)
        is_file = request.priority is Priority.BATCH and not request.temperature
        return is_file and is_read and request.expected is None and self.phase is Phase.DECODE

    def guess(self, tokens: Sequence[int]) -> None:
        """What may come next, to be verified in the next step."""
        self._guess = tuple(tokens[: max(0, self.generated.room)])
        self.num_guessed += len(self._guess)
        if self._guess:
            self.phase = Phase.PREFILL

    def follow(self, said: Sequence[int], most: int) -> None:
        """Go on behind these tokens, whatever was written before, with so many at most."""
        old, written = self.context, len(self.generated.tokens)
        prompt = old[: len(old) - written]
        self.context = [*prompt, *said]
        pairs = enumerate(zip(old, self.context, strict=False))
        same = next((i for i, (a, b) in pairs if a != b), min(len(old), len(self.context)))
        self.fed = min(self.fed, same, len(self.context) - 1)
        self.generated.cut(0)
        self.generated.tokens[:] = said
        self.generated.logprobs[:] = [0.0] * len(said)
        self.generated.max_tokens = min(len(said) + most, self.context_limit - len(prompt))
        self._guess, self._depends, self.phase = (), False, Phase.PREFILL

    @property
    def trials(self) -> OnTrial | None:
        """Of the complete text, if words are expected, or doubts are thought over."""
        return None if self.expecting is None else self.expecting.trials

    @property
    def _draft(self) -> tuple[int, ...]:
        if self.trials is not None:
            return self.trials.guess
        if self.phase is not Phase.PREFILL:
            return ()
        room = min(self.context_limit - len(self.context), self.request.max_new_tokens)
        return self._guess[: max(0, room)]

    def demand(self) -> Demand:
        """A Whisper prompt is short (448 tokens at most) and goes in one piece, and so does a text
        that is aligned."""
        if self.phase is Phase.ALIGN:
            return Demand(len(self.aligned().tokens), divisible=False, waiting=self._depends)
        return Demand(self.num_known, len(self._draft), divisible=False, waiting=self._is_held)

    @property
    def num_queries(self) -> int:
        """Tokens to feed in the next step, guesses included."""
        return self.num_known + len(self._draft)

    def queries(self) -> list[int]:
        """Token ids to feed in this step, at positions fed, fed+1, ...; UNREAD for what was sampled
        last, if nobody has read it."""
        known = self.context[self.fed :]
        return known + [UNREAD] * (self.num_known - len(known)) + list(self._draft)

    def logits_rows(self) -> list[LogitsRow]:
        """The positions of `queries` whose logits this step needs, in order."""
        known = self.num_known
        if self.phase is Phase.DETECT:
            return [LogitsRow(known - 1, Purpose.START)]
        start = len(self.request.head) - 1 - self.fed  # the <|startoftranscript|> position
        rows = [LogitsRow(start, Purpose.START)] if start >= 0 else []
        draft, said = self._draft, (*self.request.prefix, *self.generated.tokens)
        expecting, is_stamped = self.expecting, self.request.timestamps
        if expecting is not None and expecting.trials is not None:
            return self._trial_rows(expecting, expecting.trials)
        firsts = () if expecting is None else expecting.firsts
        for i in range(len(draft) + 1):
            history = (*said, *draft[:i]) if is_stamped else ()
            num_said = len(self.generated.tokens) + i + self.unread
            index, ends = known - 1 + i, self._may_end(draft[:i])
            place, token = self.request.barred or (-1, 0)
            barred = token if place == num_said else None
            rows.append(
                LogitsRow(index, Purpose.TOKEN, history, num_said, None, firsts, ends, barred)
            )
        return rows

    def _may_end(self, guess: Sequence[int]) -> bool:
        """Whether the text may be over behind what was written, times apart, and this guess."""
        if not self.request.at_least:
            return True
        written = (*self.generated.tokens, *guess)
        count = sum(token < self.end_token for token in written) + self.unread
        return count >= self.request.at_least

    def _trial_rows(self, expecting: Expecting, trials: OnTrial) -> list[LogitsRow]:
        guess, said, forced = trials.guess, trials.context, expecting.forced
        return [
            LogitsRow(
                self.num_known - 1 + i,
                Purpose.TOKEN,
                (*self.request.prefix, *said, *guess[:i]) if self.request.timestamps else (),
                len(said) + i,
                forced[i] if i < len(forced) else None,
            )
            for i in range(len(guess) + 1)
        ]

    def aligned(self) -> AlignedText:
        """What is read once more to find out when it was said. Only when the text is complete."""
        assert self.phase is Phase.ALIGN
        language = [] if self.language is None else [self.language]
        start = [self.request.head[-1], *language, *self.request.tail]
        text = [*self.request.prefix, *self.generated.tokens]
        return AlignedText([*start, *text, self.end_token], len(start), len(text))

    def launch(self) -> None:
        """A step that feeds the queries, or the text that is aligned, is on its way."""
        assert not self._depends
        depends = self.is_guess or self.phase in (Phase.DETECT, Phase.ALIGN)
        looks_back = self.request.timestamps or self.expecting is not None
        if depends or self._draft or looks_back:
            self._depends = True
            return
        self.fed += self.num_known
        self.unread += 1
        self.phase = Phase.DECODE

    def absorb_start(self, no_speech_prob: float, languages: Mapping[int, float]) -> bool:
        """The start token was read: what it says. Returns whether what was sampled behind it, in
        the same step, is of the language that was to be detected; else the next step asks again."""
        is_alone, is_detecting = self.request.detects_alone, self.phase is Phase.DETECT
        self.no_speech_prob = no_speech_prob
        if is_detecting or not is_alone:
            self.languages = languages
        if not is_detecting and not self.is_guess:
            return True
        prior = self.request.language_prior
        scores = {token: prior.get(token, 0.0 if not prior else -math.inf) for token in languages}
        language = max(languages, key=lambda token: languages[token] + scores[token])
        if self.is_guess and self.language == language:
            self.is_guess = False
            return True
        self.context = list(self.request.head)
        self.fed = 0 if is_alone else len(self.context)
        self._depends = self.is_guess = False
        self.language = self.request.language or language
        self._complete_prompt()
        return False

    def absorb(
        self,
        sampled: list[int],
        logprobs: list[float],
        told: Sequence[Told] = (),
        closings: Sequence[float] = (),
    ) -> None:
        """Take the tokens sampled at the rows of `Purpose.TOKEN`, in the step that was launched
        first of those not read: the draft while it agrees, then one more. told: of each, if words
        are expected. closings: of each, if they are wanted."""
        expecting, generated = self.expecting, self.generated
        if expecting is not None:
            expecting.read([*self.context[: self.fed], *self.queries()])
            if expecting.trials is not None:
                self._depends = False
                generated.num_passes += 1
                expecting.trials.take(sampled, told)
                self._go_on_trial(expecting, expecting.trials)
                return
        draft = self.request.draft
        taken = self._take(sampled, logprobs, self._draft)
        self.phase, ends = Phase.DECODE, generated.stop is StopReason.END
        self.closings += closings[: len(taken) + ends]
        if expecting is not None:
            expecting.tell(told[: len(taken) + ends])
        if expecting is not None and ends:
            self._num_asked = len(self.context) - len(generated.tokens)
            trials = expecting.begin(
                (*generated.tokens, sampled[len(taken)]),
                self.request.prefix,
                generated.end_tokens,
                self.context_limit - self._num_asked,
                is_open=self.request.is_open,
            )
            self._go_on_trial(expecting, trials)
        elif generated.stop:
            self._complete()
        elif expecting is not None:
            self._guess = rejoined(draft, generated.tokens)
            self.num_guessed += len(self._guess)
            self.phase = Phase.PREFILL if self._guess else Phase.DECODE

    def _go_on_trial(self, expecting: Expecting, trials: OnTrial) -> None:
        generated, prompt = self.generated, self.context[: self._num_asked]
        if trials.is_over:
            was = len(generated.tokens)
            generated.tokens[:], generated.logprobs[:] = trials.result()
            if self.closings:  # those of the end are what matters
                longer = len(generated.tokens) - was
                self.closings[:] = [-math.inf] * longer + self.closings[max(0, -longer) :]
            self.context = [*prompt, *generated.tokens]
            self._complete()
            return
        self.context = [*prompt, *trials.context]
        self.fed, self.phase = expecting.num_cached(self.context), Phase.PREFILL

    def _complete(self) -> None:
        align_if = self.request.align_if
        aligns = self.request.align or (align_if is not None and align_if(self.generated.tokens))
        self.phase = Phase.ALIGN if aligns else Phase.DONE

    def absorb_times(self, times: tuple[tuple[float, float], ...]) -> None:
        """When the tokens of prefix and answer were said: (start, end) seconds of the window."""
        assert self.phase is Phase.ALIGN
        self.token_times = times
        self.phase = Phase.DONE

    def result(self) -> Result:
        """What came of the request. Only when done."""
        return replace(
            RequestProgress.result(self),
            language=self.language,
            languages=self.languages,
            no_speech_prob=self.no_speech_prob,
            token_times=self.token_times,
            closings=tuple(self.closings),
        )
