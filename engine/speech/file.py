"""A whole recording, one piece after another. Pure."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

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
from lookhear.engine.speech.text.word_times import (
    boundary,
    loud_stretches,
    voiced_span,
    voiced_words,
)

SHORTEST = SAMPLE_RATE // 50  # samples; what is left of a recording and not worth hearing


class Section(NamedTuple):
    """A part of a recording that is heard by itself: the samples [start, end) of `audio`. language:
    ISO code of what was heard before it, if it is known."""

    audio: CondensedAudio
    start: int
    end: int
    language: str | None = None


@dataclass(slots=True)
class Heard:
    """What was heard so far. languages: tokens of text in each, by ISO code, where it is known.
    audio_tokens, text_tokens: that the model has read for it."""

    segments: list[Segment] = field(default_factory=list)
    words: list[Word] = field(default_factory=list)
    logprobs: list[TokenLogprob] = field(default_factory=list)
    languages: Counter[str] = field(default_factory=Counter)
    audio_tokens: int = 0
    text_tokens: int = 0

    def add(self, other: Heard) -> None:
        """What was heard behind it."""
        self.segments += other.segments
        self.words += other.words
        self.logprobs += other.logprobs
        self.languages += other.languages
        self.audio_tokens += other.audio_tokens
        self.text_tokens += other.text_tokens

    def answer(self, message: TranscribeFile, language: str | None) -> FileTranscribed:
        """If that is all. language: ISO code if nothing was heard, None if it is not known; else it
        is that in which most is said."""
        text = "".join(segment.text for segment in self.segments).rstrip()
        if not message.continues:
            text = text.lstrip()
        return FileTranscribed(
            message.request,
            text,
            max(self.languages, key=self.languages.__getitem__, default=language),
            len(message.samples) / SAMPLE_RATE,
            self.segments,
            self.words,
            sum(len(segment.tokens) for segment in self.segments),
            told_logprobs(self.logprobs, text) if message.settings.logprobs else None,
            self.audio_tokens,
            self.text_tokens,
        )


class FileTranscription(ABC):
    """Turns `TranscribeFile` into `FileProgress`* and `FileTranscribed`; satisfies `Owner`. How a
    piece is asked about, and how much of it an answer covers, is the checkpoint's business.
    Positions and times are those of the audio without its long pauses, until `_add` puts them back.

    cap: longest piece in samples, cut in the last pause of its second half, or at the quietest
    place. decode_bytes: UTF-8 bytes of several tokens. section: what to hear of it; None: all.
    """

    is_urgent = False  # nobody waits for a file as for an answer
    follows_language = False  # whether a language that was not told may change

    def __init__(
        self,
        message: TranscribeFile,
        cap: int,
        decode_bytes: DecodeBytes,
        section: Section | None = None,
    ) -> None:
        before = message.language_before if section is None else section.language
        if before and not self.follows_language:
            told = replace(message.settings, language=message.settings.language or before)
            message = replace(message, settings=told)
        self._before = before  # language of what was said in front of it
        self._message = message
        self._cap = cap
        self._decode_bytes = decode_bytes
        if section is None:
            audio = CondensedAudio(message.samples, message.speech)
            section = Section(audio, 0, len(audio.samples))
        self._audio, self._start, self._end, _ = section
        # Where words may be, as far as it can be known.
        self._voiced = self._audio.speech
        if message.speech is None and message.settings.words:
            self._voiced = loud_stretches(message.samples)
        self._position = self._start  # the samples before it are done with
        self._until: int | None = None  # end of the piece in flight
        self.heard = Heard()
        self._words_until = 0.0  # end of the last word
        self._told = 0  # segments of which progress was told
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

    @property
    def is_heard(self) -> bool:
        """Whether nothing is left to hear."""
        return self._until is None and self._end - self._position < SHORTEST

    @property
    def seconds(self) -> float:
        """Of the recording, that are done with; all before the section are."""
        if self.is_heard and self._end == len(self._audio.samples):
            return len(self._message.samples) / SAMPLE_RATE
        return self._audio.end_time(self._position / SAMPLE_RATE)

    def wants_request(self) -> bool:
        """Whether there is more to hear, and nothing in flight."""
        return not self.is_done and self._until is None and not self.is_heard

    def make_request(self) -> Any:
        """About the next piece."""
        assert self._until is None and not self.is_done
        self._until = self._plan_end(self._position)
        request = self._request(self._audio.samples[self._position : self._until])
        audio, text = self._size(request)
        self.heard.audio_tokens += audio
        self.heard.text_tokens += text
        return request

    def take(self, result: Result) -> bool:
        """The piece in flight was heard. Returns whether that gets on, or it is heard again."""
        assert self._until is not None
        done = self._hear(result, self._until - self._position)
        self._position += done
        self._until = None
        return done > 0

    def absorb(self, result: Result) -> list[Event]:
        """The same, and what is told of it."""
        gets_on = self.take(result)
        told = self._progress() if gets_on and self._message.tells_progress else []
        return [*told, *self.settle()]

    def _progress(self) -> list[Event]:
        segments = self.heard.segments
        new, self._told = segments[self._told :], len(segments)
        duration = len(self._message.samples) / SAMPLE_RATE
        return [FileProgress(self._message.request, new, self.seconds, duration)]

    def settle(self) -> list[Event]:
        """The answer, if all was heard."""
        if self.is_done or not self.is_heard:
            return []
        self.is_done = True
        return [self.heard.answer(self._message, self.language)]

    def fail(self, code: str, message: str) -> list[Event]:
        """The piece in flight could not be heard."""
        self.is_done = True
        return [FileFailed(self._message.request, code, message)]

    def sections(self, least: int) -> list[Section]:
        """It, cut where pieces end in pauses: the first piece, then parts of so many samples at
        least. Where nobody knows when somebody speaks it is not cut."""
        found: list[Section] = []
        begin = at = self._start
        while self._message.speech is not None and self._end - at >= SHORTEST:
            at = self._plan_end(at)
            wanted = least if found else SHORTEST
            is_apart = at < self._end and self._audio.spoken(at - 1, at + 1) == 0
            if is_apart and at - begin >= wanted and self._end - at >= least:
                found.append(Section(self._audio, begin, at))
                begin = at
        return [*found, Section(self._audio, begin, self._end)]

    # --- pieces ----------------------------------------------------------------------------------

    def _plan_end(self, begin: int) -> int:
        """Where a piece that begins there ends, in samples."""
        if self._end - begin <= self._cap:
            return self._end
        low, high = begin + self._cap // 2, begin + self._cap
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
        # A window may begin before the last one's words end. What was told of those stays.
        before = self.heard.segments[-1].end if self.heard.segments else 0.0
        begun = max(audio.start_time(start), before)
        mean = sum(said.logprobs) / len(said.logprobs)
        self.heard.segments.append(
            Segment(
                text,
                begun,
                max(begun, audio.end_time(end)),
                list(said.tokens),
                mean,
                no_speech_prob,
                temperature,
                language=self.language,
            )
        )
        if self.language is not None:
            self.heard.languages[self.language] += len(said.tokens)
        if self._message.settings.logprobs:
            told = said.token_logprobs(lambda token: self._decode_bytes([token]))
            self.heard.logprobs += told_logprobs(told, text)
        self._add_words(said.words(self._decode_bytes, self._written(self.language)))

    def _add_words(self, words: Sequence[Word]) -> None:
        """Of a segment. A window may begin before the last one's words end."""
        audio, kept = self._audio, self.heard.words
        for w in voiced_words(words, self._voiced, self._words_until, ends=True):
            self._words_until = w.end
            begun, over = audio.start_time(w.start), audio.end_time(w.end)
            if kept and begun < kept[-1].end:
                begun = boundary((kept[-1].start, kept[-1].end), (begun, over))
                kept[-1] = replace(kept[-1], end=begun)
            kept.append(replace(w, start=begun, end=max(begun, over)))

    def _written(self, spoken: str | None) -> str | None:
        """ISO code of the text of what is said in a language."""
        return "en" if self._message.settings.task == "translate" else spoken
