"""A whole recording, one piece after another. Pure."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lookhear.engine.core.request import Cost, Result
from lookhear.engine.messages import (
    SAMPLE_RATE,
    Event,
    FileFailed,
    FileTranscribed,
    Segment,
    TranscribeFile,
    Word,
)
from lookhear.engine.speech.audio_buffer import quietest
from lookhear.engine.speech.condensed import CondensedAudio
from lookhear.engine.speech.word_times import loud_stretches, voiced_span, voiced_words

SHORTEST = SAMPLE_RATE // 50  # samples; what is left of a recording and not worth hearing


class FileTranscription(ABC):
    """Turns `TranscribeFile` into `FileTranscribed`; satisfies `Owner`. How a piece is asked about,
    and how much of it an answer covers, is the checkpoint's business. Positions and times are those
    of the audio without its long pauses, until `_add` and `_add_words` put them back.

    cap: longest piece in samples, cut at the quietest place of its second half.
    """

    is_urgent = False  # nobody waits for a file as for an answer

    def __init__(self, message: TranscribeFile, cap: int) -> None:
        self._message = message
        self._cap = cap
        self._audio = CondensedAudio(message.samples, message.speech)
        # Where somebody speaks, as far as it can be known.
        is_known = message.speech is not None
        self._voiced = self._audio.speech if is_known else loud_stretches(message.samples)
        self._position = 0  # samples that are done with
        self._end: int | None = None  # of the piece in flight
        self._segments: list[Segment] = []
        self._words: list[Word] = []
        self.is_done = False

    @property
    @abstractmethod
    def language(self) -> str | None:
        """ISO code of what was heard so far, or what was told; None if that is not known."""

    @abstractmethod
    def cost(self) -> Cost:
        """Of the next piece."""

    @abstractmethod
    def _request(self, samples: NDArray[np.float32]) -> Any:
        """About the piece that begins at _position."""

    @abstractmethod
    def _hear(self, result: Result, num_samples: int) -> int:
        """Keep what was heard in a piece; returns how many of its samples are done with."""

    # --- the owner -------------------------------------------------------------------------------

    def wants_request(self) -> bool:
        """Whether there is more to hear, and nothing in flight."""
        return not self.is_done and self._end is None and self._remaining() >= SHORTEST

    def make_request(self) -> Any:
        """About the next piece."""
        assert self._end is None and not self.is_done
        self._end = self._plan_end()
        return self._request(self._audio.samples[self._position : self._end])

    def absorb(self, result: Result) -> list[Event]:
        """The piece in flight was heard."""
        assert self._end is not None
        self._position += self._hear(result, self._end - self._position)
        self._end = None
        return self.settle()

    def settle(self) -> list[Event]:
        """The answer, if all was heard."""
        if self.is_done or self._end is not None or self._remaining() >= SHORTEST:
            return []
        self.is_done = True
        return [
            FileTranscribed(
                self._message.request,
                "".join(segment.text for segment in self._segments).strip(),
                self.language,
                len(self._message.samples) / SAMPLE_RATE,
                self._segments,
                self._words,
                sum(len(segment.tokens) for segment in self._segments),
            )
        ]

    def fail(self, code: str, message: str) -> list[Event]:
        """The piece in flight could not be heard."""
        self.is_done = True
        return [FileFailed(self._message.request, code, message)]

    # --- pieces ----------------------------------------------------------------------------------

    def _remaining(self) -> int:
        return len(self._audio.samples) - self._position

    def _plan_end(self) -> int:
        """Where the next piece ends, in samples."""
        if self._remaining() <= self._cap:
            return len(self._audio.samples)
        low, high = self._position + self._cap // 2, self._position + self._cap
        pause = self._audio.last_pause(low, high)
        return low + quietest(self._audio.samples[low:high]) if pause is None else pause

    def _add(
        self,
        text: str,
        tokens: Sequence[int],
        logprobs: Sequence[float],
        start: float,
        end: float,
        no_speech_prob: float = 0.0,
        temperature: float = 0.0,
    ) -> None:
        """A segment. start, end: seconds."""
        start, end = voiced_span(start, end, self._audio.speech)
        start, end = self._audio.start_time(start), self._audio.end_time(end)
        mean = sum(logprobs) / len(logprobs)
        self._segments.append(
            Segment(text, start, end, list(tokens), mean, no_speech_prob, temperature)
        )

    def _add_words(self, words: Sequence[Word]) -> None:
        """Their times: seconds."""
        audio = self._audio
        for w in voiced_words(words, self._voiced):
            start, end = audio.start_time(w.start), audio.end_time(w.end)
            self._words.append(replace(w, start=start, end=max(start, end)))
