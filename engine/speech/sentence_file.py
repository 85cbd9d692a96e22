"""A whole recording for a model that writes no times itself: cut at quiet places, a sentence a
segment. Pure."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lookhear.engine.core.request import Cost, Priority, Result
from lookhear.engine.messages import SAMPLE_RATE, TranscribeFile
from lookhear.engine.speech.file import FileTranscription, Section
from lookhear.engine.speech.recognizer import Recognizer, Stretch
from lookhear.engine.speech.text.sentences import sentences
from lookhear.engine.speech.text.words import UNSPACED_LANGUAGES


class SentenceFile(FileTranscription):
    """A sentence is a segment. Where its words were timed, it goes from the first to the last of
    them. Else when it ended is guessed from its length among the others of its piece, and from
    where nobody spoke."""

    def __init__(
        self,
        message: TranscribeFile,
        recognizer: Recognizer,
        cap: int,
        section: Section | None = None,
    ) -> None:
        super().__init__(message, cap, recognizer.decode_bytes, section)
        self._recognizer = recognizer
        self._given = self._message.settings.language
        self._language = self._given

    @property
    def language(self) -> str | None:
        """ISO code: of what was heard last, where it may change."""
        return self._language

    def cost(self) -> Cost:
        """Of the next piece."""
        end = self._plan_end(self._position)
        return self._recognizer.cost(self._position, end - self._position, 0)

    def _request(self, samples: NDArray[np.float32]) -> Any:
        self._stretch = Stretch(
            key=self._message.request,
            priority=Priority.BATCH,
            start=self._position,
            samples=samples,
            language=self._given if self.follows_language else self._language,
            voiced_until=len(samples),
        )
        return self._recognizer.request(self._stretch)

    @abstractmethod
    def _size(self, request: Any) -> tuple[int, int]:
        """See `FileTranscription`."""

    def _hear(self, result: Result, num_samples: int) -> int:
        heard = self._recognizer.hypothesis(result, self._stretch)
        if self._given is None and heard.tokens:
            self._language = heard.language or self._language
        start, end = self._position, self._position + num_samples
        texts = [
            (
                heard.split(last)[0].split(first)[1],
                self._recognizer.decode_bytes(heard.tokens[first:last]),
            )
            for first, last in sentences(
                heard.tokens, self._recognizer.decode_bytes, self._language
            )
        ]
        total = sum(len(data) for _, data in texts)
        said, begins = 0, start
        for part, data in texts:
            said += len(data)
            is_last = said == total
            over, following = (
                (end, end) if is_last else self._audio.spoken_until(start, end, said / total)
            )
            text = data.decode("utf-8", "replace")
            if text.strip():
                is_first = not (self._start or self.heard.segments or self._message.continues)
                if not is_first and self._language not in UNSPACED_LANGUAGES:
                    text = " " + text.lstrip()
                times = (begins / SAMPLE_RATE, max(begins, over) / SAMPLE_RATE)
                if part.spans:
                    times = (part.spans[0][0], part.spans[-1][1])
                self._add(part, text, *times)
            begins = max(begins, following)
        return num_samples


class TimedSentenceFile(SentenceFile):
    """Of a model that times what it writes: a sentence by its tokens, words if they are wanted."""

    def _add(self, *told: Any, **more: Any) -> None:
        super()._add(*told, **more)
        if not self._message.settings.words:
            self.heard.words.clear()
