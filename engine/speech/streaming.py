"""A turn of speech, heard by a model that streams by itself. Pure.

Data flow: samples -> what is complete of them, by a `Feed` -> a request for what is new ->
`Result` -> its tokens are committed as they are. There is nothing to agree on: what such a model
wrote stands, and no sample is heard twice. A long pause ends the recording that the model
remembers; where somebody speaks again, another begins. Of the silence between, and in front of the
first word, nothing is heard: what no voice detector heard is no text.

                  segment_start           fed         voiced_until    received
    |--- said before -----|----- heard -----|--- to come ---|-- silence --|

Positions are absolute: samples since the turn began.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from lookhear.engine.core.request import Cost, Priority, Result
from lookhear.engine.messages import (
    SAMPLE_RATE,
    Event,
    StartTurn,
    TextCommitted,
    TranscriptionSettings,
    TurnCompleted,
    TurnFailed,
    TurnSettled,
    TurnState,
)
from lookhear.engine.speech.live_config import LiveConfig
from lookhear.engine.speech.recognizer import Recognizer
from lookhear.engine.speech.text.hypothesis import Hypothesis
from lookhear.engine.speech.text.words import group_words
from lookhear.engine.speech.transcriber import StartFile, Transcriber
from lookhear.engine.speech.turn import Turn
from lookhear.engine.speech.turn_text import TurnText

LATE = 3 * SAMPLE_RATE  # samples of silence that are kept, as the voice detector may be late
TOLD = SAMPLE_RATE  # samples that are settled without a text before that is told


class Feed(Protocol):
    """Samples of one recording, handed out in the model's own units. fed: of them, so far."""

    fed: int

    @property
    def heard(self) -> int:
        """Position up to which all is heard."""

    @property
    def written(self) -> int:
        """The same of what is written: another recording would begin there."""

    @property
    def remaining(self) -> int:
        """Units left, if no more samples come."""

    @property
    def ready(self) -> int:
        """Units that no later sample changes; of no more than one request takes."""

    @property
    def is_short(self) -> bool:
        """Whether what remains is no more than that."""

    def append(self, samples: NDArray[np.float32]) -> None:
        """More of it."""

    def rest(self) -> NDArray[np.float32]:
        """What follows `heard`."""

    def skip(self, count: int) -> None:
        """Have it begin so many samples later; nothing was handed out."""

    def cost(self, count: int) -> Cost:
        """Of a request about so many units."""

    def take(self, key: str, priority: Priority, count: int, *, is_last: bool) -> Any:
        """A request about the next units, so many."""


class StreamingRecognizer(Recognizer, Protocol):
    """Of a model that streams by itself."""

    def heard(self, result: Result, start: int) -> Hypothesis:
        """start: where the recording begins that it is about, in samples."""


class StreamingTurn(Turn):
    """One turn of one session. segment_start: position where the recording begins that the model
    hears."""

    def __init__(
        self,
        message: StartTurn,
        recognizer: StreamingRecognizer,
        begin: Callable[[], Feed],
        config: LiveConfig,
    ) -> None:
        """begin: another recording."""
        self._session, self._turn = message.session, message.turn
        self._settings = message.settings
        self._tells_state = message.tells_state
        self._recognizer, self._config = recognizer, config
        self._begin = begin
        resume = message.resume or TurnState()
        self._text = TurnText(self._session, self._turn, self._settings, recognizer, resume)
        self._feed = begin()
        self.segment_start = self.num_samples = resume.start
        self.voiced_until = resume.voiced_until
        self.has_ended = self.is_done = False
        self._is_asked = False  # a request is under way
        self._is_closing = False  # it is the last of its recording
        self._held = Hypothesis()  # the beginning of a word, where words are told whole
        self._told_start = resume.start  # as the last state has it

    # --- input -----------------------------------------------------------------------------------

    def append(self, samples: NDArray[np.float32], voiced_until: int) -> None:
        """See `Turn`."""
        assert not self.has_ended and not self.is_done
        was_silent, before = not self._has_voice(), self.num_samples
        self._feed.append(samples)
        self.num_samples += len(samples)
        self.voiced_until = max(self.voiced_until, min(voiced_until, self.num_samples))
        if was_silent and not self._is_asked:
            begin = min(before, voiced_until) - self._config.lead
            self._begin_at(begin if self._has_voice() else self.num_samples - LATE)

    def _has_voice(self) -> bool:
        return self.voiced_until > self.segment_start

    def _begin_at(self, position: int) -> None:
        position = min(max(position, self.segment_start), self.num_samples)
        self._feed.skip(position - self.segment_start)
        self.segment_start = position

    # --- requests --------------------------------------------------------------------------------

    def wants_request(self) -> bool:
        """Whether something is complete, or what is left of the recording is to be heard."""
        if self.is_done or self._is_asked or not self._has_voice():
            return False
        return self._feed.remaining > 0 if self._is_over() else self._feed.ready > 0

    def _is_over(self) -> bool:
        """Whether the recording ends here."""
        return self.has_ended or self.num_samples - self.voiced_until >= self._config.long_pause

    @property
    def is_urgent(self) -> bool:
        """Whether somebody has finished speaking."""
        return self._is_over()

    def _next(self) -> tuple[int, bool]:
        """Units of the next request, and whether it is the last of its recording."""
        if self._is_over() and self._feed.is_short:
            return self._feed.remaining, True
        return self._feed.ready, False

    def cost(self) -> Cost:
        """Of the next request."""
        return self._feed.cost(self._next()[0])

    def make_request(self) -> Any:
        """What is new."""
        assert not self._is_asked and not self.is_done
        count, self._is_closing = self._next()
        self._is_asked = True
        key = f"{self._session}/{self._turn}"
        return self._feed.take(key, Priority.LIVE, count, is_last=self._is_closing)

    # --- results ---------------------------------------------------------------------------------

    def absorb(self, result: Result) -> list[Event]:
        """All that was written is said for good."""
        self._is_asked = False
        new = self._recognizer.heard(result, self.segment_start)
        heard = _joined(self._held, new)
        count = len(heard.tokens) if self._is_closing else self._num_whole(heard)
        said, self._held = heard.split(count)
        events = self._text.commit(said)  # also where a language comes without a text
        if self._is_closing:
            self._begin_anew()
        return [*self._told(events), *self.settle(), *self._provisional()]

    def _num_whole(self, heard: Hypothesis) -> int:
        """Leading tokens that can be told: all, but for a word whose end has not come and that is
        to be told with its times."""
        if not self._settings.words or not heard.tokens:
            return len(heard.tokens)
        words = group_words(heard.tokens, self._recognizer.decode_bytes, self._text.language)
        return words[-1][1]

    def _begin_anew(self) -> None:
        """What comes is another recording."""
        position = self._position()
        rest = self._feed.rest()
        self._text.end_segment()
        self._is_closing = False
        self._feed = self._begin()
        self._feed.append(rest)
        self.segment_start = position

    def _position(self) -> int:
        """Up to which all was heard; where another recording would begin."""
        return min(self.num_samples, self.segment_start + self._feed.heard)

    def settle(self) -> list[Event]:
        """The end of the turn, once all was heard."""
        if self.is_done or self._is_asked or not self._is_over():
            return []
        if self._has_voice() and self._feed.remaining:
            return []
        held, self._held = self._held, Hypothesis()
        events = self._told(self._text.commit(held) if held.tokens else [])
        if self._feed.fed:
            self._begin_anew()
        if not self.has_ended:
            return events
        self.is_done = True
        if rest := self._text.flush():
            events += self._told(rest)
        return [*events, self._completed()]

    def fail(self, code: str, message: str) -> list[Event]:
        """The turn is over."""
        self.is_done = True
        return [TurnFailed(self._session, self._turn, code, message)]

    def _told(self, said: Sequence[TextCommitted]) -> list[Event]:
        """With what is settled now, for an engine that would have to go on."""
        if not self._tells_state:
            return [*said]
        state = self._state()
        if not said and state.start - self._told_start < TOLD:
            return []
        self._told_start = state.start
        if not said:
            return [TurnSettled(self._session, self._turn, state)]
        return [*said[:-1], replace(said[-1], state=state)]

    def _state(self) -> TurnState:
        """Another engine hears what follows as a recording of its own; a word that was held is
        heard again."""
        start = min(self.num_samples, self.segment_start + self._feed.written)
        if self._held.tokens:
            start = min(start, round(self._held.spans[0][0] * SAMPLE_RATE))
        return replace(
            self._text.state(),
            start=start,
            voiced_until=min(self.voiced_until, start),
            commit_end=start,
            is_apart=self._recognizer.joins_with_space,
        )

    def _provisional(self) -> list[Event]:
        return [] if self.is_done else self._text.provisional(self._held, self._position())

    def _completed(self) -> TurnCompleted:
        return self._text.completed(self.num_samples, self._state() if self._tells_state else None)


def _joined(first: Hypothesis, second: Hypothesis) -> Hypothesis:
    return Hypothesis(
        first.tokens + second.tokens,
        first.logprobs + second.logprobs,
        first.spans + second.spans,
        second.language or first.language,
    )


def streaming_transcriber(
    recognizer: StreamingRecognizer,
    live: LiveConfig,
    start_file: StartFile,
    feed: Callable[[TranscriptionSettings], Feed],
    languages: Sequence[str] = (),
) -> Transcriber:
    """Who listens to turns and reads files. feed: begins a recording of a turn. languages: ISO
    codes that it can be told."""
    return Transcriber(
        live,
        list(languages),
        lambda settings: recognizer,
        start_file,
        has_word_times=True,
        takes_context=False,
        detects_among=False,
        listen=lambda message: StreamingTurn(
            message, recognizer, lambda: feed(message.settings), live
        ),
    )
