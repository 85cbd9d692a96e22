"""A whole recording, one piece after another. Pure."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lookhear.engine.core.request import Cost, Result
from lookhear.engine.messages import (
    SAMPLE_RATE,
    Event,
    FileFailed,
    FileProgress,
    FileTranscribed,
    Segment,
    TokenLogprob,
    TranscribeFile,
    Word,
)
from lookhear.engine.speech.audio_buffer import quietest
from lookhear.engine.speech.condensed import CondensedAudio
from lookhear.engine.speech.text.hypothesis import DecodeBytes, Hypothesis, told_logprobs
from lookhear.engine.speech.text.word_times import loud_stretches, voiced_span, voiced_words

SHORTEST = SAMPLE_RATE // 50  # samples; what is left of a recording and not worth hearing


class FileTranscription(ABC):
    """Turns `TranscribeFile` into `FileProgress`* and `FileTranscribed`; satisfies `Owner`. How a
    piece is asked about, and how much of it an answer covers, is the checkpoint's business.
    Positions and times are those of the audio without its long pauses, until `_add` puts them back.

    cap: longest piece in samples, cut in the last pause of its second half, or at the quietest
    place. decode_bytes: UTF-8 bytes of several tokens.
    """

    is_urgent = False  # nobody waits for a file as for an answer

    def __init__(self, message: TranscribeFile, cap: int, decode_bytes: DecodeBytes) -> None:
        self._message = message
        self._cap = cap
        self._decode_bytes = decode_bytes
        self._audio = CondensedAudio(message.samples, message.speech)
        # Where words may be, as far as it can be known.
        self._voiced = self._audio.speech
        if message.speech is None and message.settings.words:
            self._voiced = loud_stretches(message.samples)
        self._position = 0  # samples that are done with
        self._end: int | None = None  # of the piece in flight
        self._segments: list[Segment] = []
        self._words: list[Word] = []
        self._logprobs: list[TokenLogprob] = []
        self._told = 0  # segments of which progress was told
        self._read = (0, 0)  # audio and text tokens, by all requests so far
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
    def _size(self, request: Any) -> tuple[int, int]:
        """How many tokens of audio and of text it has the model read."""

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
        request = self._request(self._audio.samples[self._position : self._end])
        audio, text = self._size(request)
        self._read = self._read[0] + audio, self._read[1] + text
        return request

    def absorb(self, result: Result) -> list[Event]:
        """The piece in flight was heard."""
        assert self._end is not None
        done = self._hear(result, self._end - self._position)
        self._position += done
        self._end = None
        told = self._progress() if done and self._message.tells_progress else []
        return [*told, *self.settle()]

    def _progress(self) -> list[Event]:
        new, self._told = self._segments[self._told :], len(self._segments)
        duration = len(self._message.samples) / SAMPLE_RATE
        is_over = self._remaining() < SHORTEST
        seconds = duration if is_over else self._audio.end_time(self._position / SAMPLE_RATE)
        return [FileProgress(self._message.request, new, seconds, duration)]

    def settle(self) -> list[Event]:
        """The answer, if all was heard."""
        if self.is_done or self._end is not None or self._remaining() >= SHORTEST:
            return []
        self.is_done = True
        text = "".join(segment.text for segment in self._segments).strip()
        wanted = self._message.settings.logprobs
        return [
            FileTranscribed(
                self._message.request,
                text,
                self.language,
                len(self._message.samples) / SAMPLE_RATE,
                self._segments,
                self._words,
                sum(len(segment.tokens) for segment in self._segments),
                told_logprobs(self._logprobs, text) if wanted else None,
                *self._read,
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
        said: Hypothesis,
        text: str,
        start: float,
        end: float,
        no_speech_prob: float = 0.0,
        temperature: float = 0.0,
    ) -> None:
        """A segment, its words, its log-probabilities. text: of said. start, end: seconds."""
        audio = self._audio
        start, end = voiced_span(start, end, audio.speech)
        mean = sum(said.logprobs) / len(said.logprobs)
        self._segments.append(
            Segment(
                text,
                audio.start_time(start),
                audio.end_time(end),
                list(said.tokens),
                mean,
                no_speech_prob,
                temperature,
            )
        )
        if self._message.settings.logprobs:
            told = said.token_logprobs(lambda token: self._decode_bytes([token]))
            self._logprobs += told_logprobs(told, text)
        for w in voiced_words(said.words(self._decode_bytes, self.language), self._voiced):
            begun, over = audio.start_time(w.start), audio.end_time(w.end)
            self._words.append(replace(w, start=begun, end=max(begun, over)))
