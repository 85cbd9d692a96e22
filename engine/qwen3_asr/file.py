"""A whole recording for a model that writes no times: cut at quiet places, piece by piece. Pure;
satisfies `Owner`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lookhear.engine.core.request import Cost, Priority, Result
from lookhear.engine.messages import (
    SAMPLE_RATE,
    Event,
    FileFailed,
    FileTranscribed,
    Segment,
    TranscribeFile,
)
from lookhear.engine.paged.request import PagedRequest
from lookhear.engine.qwen3_asr.recognizer import AsrRecognizer
from lookhear.engine.speech.quiet import quietest
from lookhear.engine.speech.recognizer import Stretch
from lookhear.engine.speech.words import UNSPACED_LANGUAGES

SHORTEST = SAMPLE_RATE // 50  # what is left of a recording and not worth hearing


class AsrFile:
    """Turns `TranscribeFile` into `FileTranscribed`. cap: longest piece in samples, cut at the
    quietest place of its second half."""

    def __init__(self, message: TranscribeFile, recognizer: AsrRecognizer, cap: int) -> None:
        self._message = message
        self._recognizer = recognizer
        self._cap = cap
        self._language = message.settings.language
        self._position = 0  # samples that are done with
        self._end: int | None = None  # of the piece in flight
        self._segments: list[Segment] = []
        self._text = ""
        self._num_tokens = 0
        self._done = False

    @property
    def is_done(self) -> bool:
        return self._done

    @property
    def is_urgent(self) -> bool:
        return False

    def wants_request(self) -> bool:
        return not self._done and self._end is None and self._remaining() >= SHORTEST

    def _remaining(self) -> int:
        return len(self._message.samples) - self._position

    def _plan_end(self) -> int:
        if self._remaining() <= self._cap:
            return len(self._message.samples)
        low, high = self._position + self._cap // 2, self._position + self._cap
        return low + quietest(self._message.samples[low:high])

    def cost(self) -> Cost:
        return self._recognizer.cost(self._position, self._plan_end() - self._position, 0)

    def make_request(self) -> PagedRequest:
        assert self._end is None and not self._done
        self._end = self._plan_end()
        samples: NDArray[np.float32] = self._message.samples[self._position : self._end]
        return self._recognizer.request(
            Stretch(
                key=self._message.request,
                priority=Priority.BATCH,
                start=self._position,
                samples=samples,
                language=self._language,
            )
        )

    def absorb(self, result: Result) -> list[Event]:
        assert self._end is not None
        heard = self._recognizer.hypothesis(result, 0, self._position)
        self._language = self._language or heard.language
        text = self._recognizer.decode_bytes(heard.tokens).decode("utf-8", "replace")
        if text.strip():
            if self._text and self._language not in UNSPACED_LANGUAGES:
                text = " " + text.lstrip()
            self._segments.append(
                Segment(
                    text,
                    self._position / SAMPLE_RATE,
                    self._end / SAMPLE_RATE,
                    list(heard.tokens),
                    sum(heard.logprobs) / len(heard.logprobs),
                    0.0,
                )
            )
            self._text += text
            self._num_tokens += len(heard.tokens)
        self._position, self._end = self._end, None
        return self.settle()

    def settle(self) -> list[Event]:
        if self._done or self._end is not None or self._remaining() >= SHORTEST:
            return []
        self._done = True
        return [
            FileTranscribed(
                self._message.request,
                self._text.strip(),
                self._language,
                len(self._message.samples) / SAMPLE_RATE,
                self._segments,
                [],
                self._num_tokens,
            )
        ]

    def fail(self, code: str, message: str) -> list[Event]:
        self._done = True
        return [FileFailed(self._message.request, code, message)]
