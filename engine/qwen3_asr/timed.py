"""Requests whose words are timed: read and decoded as others are, then asked about once more.

    TimedRequest  -> decoding: a paged request, to its end
                  -> ALIGN: its words and markers, read by the aligner in one pass
                  -> Result, with the times of its tokens

Pure; who carries it out is `timed_runner.py`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from lookhear.engine.core.request import Demand, Phase, Result
from lookhear.engine.messages import SAMPLE_RATE
from lookhear.engine.models.audio_encoder import AudioDims
from lookhear.engine.paged.request import PagedRequest, PagedSequence
from lookhear.engine.paged.sound import HOP
from lookhear.engine.qwen3_asr.alignment import (
    ALIGNED_LANGUAGES,
    AlignedWord,
    aligned_words,
    alignment_prompt,
    read_alignment,
)
from lookhear.engine.qwen3_asr.prompt import ASR_TEXT, language_code, parse_transcript
from lookhear.engine.qwen3_asr.token_times import Span, text_of, token_times
from lookhear.engine.qwen3_asr.windows import filled
from lookhear.engine.tokenizers.qwen import QwenTokenizer


@dataclass(frozen=True, slots=True)
class TimedRequest:
    """decoding: what is read and decoded. samples: the audio that it is about, as it is heard.
    committed: tokens of the text in front of the answer. language: ISO code that is forced; None:
    the answer says it."""

    decoding: PagedRequest
    samples: NDArray[np.float32]
    committed: tuple[int, ...] = ()
    language: str | None = None

    @property
    def key(self) -> str:
        """Its owner's."""
        return self.decoding.key


@dataclass(frozen=True, slots=True)
class Question:
    """When the words of one text were said. tokens: the prompt. samples: the audio that stands in
    it. words: as the prompt has them. text: tokens whose times are wanted; the first num_header of
    them are no text. limit: seconds of audio without what fills it up."""

    tokens: list[int]
    samples: NDArray[np.float32]
    words: list[str]
    text: tuple[int, ...]
    num_header: int = 0
    limit: float = math.inf


@dataclass(frozen=True, slots=True)
class Aligner:
    """How one checkpoint is asked for times. spoken: the tokenizer of the texts. tokenizer, dims,
    step_ms: the aligner's own, see `Qwen3AlignerModel`."""

    spoken: QwenTokenizer
    tokenizer: QwenTokenizer
    dims: AudioDims
    step_ms: float

    def question(self, request: TimedRequest, answer: Sequence[int]) -> Question | None:
        """About the text that came of a request, forced tokens in front included. None if there is
        no word in it, or its language is none that the aligner has learnt."""
        language, header = request.language, 0
        if language is None and not request.committed:  # the answer begins with it
            tag = self.spoken.token(ASR_TEXT)
            header = 1 + answer.index(tag) if tag in answer else 0
            language = self._named(answer[:header])
        text = (*request.committed, *answer)
        words = aligned_words(text_of(text[header:], self._decode))
        if not words or language not in ALIGNED_LANGUAGES:
            return None
        samples = filled(request.samples)[:]
        tokens = alignment_prompt(self.tokenizer, words, self.dims.num_tokens(len(samples) // HOP))
        limit = len(request.samples) / SAMPLE_RATE
        return Question(tokens, samples, words, text, header, limit)

    def trial(self) -> Question:
        """About a second of silence, which nobody made."""
        count = self.dims.num_tokens(SAMPLE_RATE // HOP)
        tokens = alignment_prompt(self.tokenizer, ["a"], count)
        return Question(tokens, np.zeros(SAMPLE_RATE, np.float32), ["a"], ())

    def times(self, question: Question, labels: Sequence[int]) -> tuple[Span, ...]:
        """Of each token of the text. labels: the likeliest of each marker."""
        limit = question.limit
        words = [
            AlignedWord(word.text, min(word.start, limit), min(word.end, limit))
            for word in read_alignment(question.words, labels, self.step_ms)
        ]
        said = token_times(question.text[question.num_header :], self._decode, words)
        return (*[(0.0, 0.0)] * question.num_header, *said)

    def _decode(self, tokens: Sequence[int]) -> bytes:
        tag = self.spoken.token(ASR_TEXT)  # is spelt out elsewhere
        return self.spoken.decode_bytes([token for token in tokens if token != tag])

    def _named(self, header: Sequence[int]) -> str | None:
        """ISO code of the language that the header of an answer names."""
        transcript = parse_transcript(self.spoken.decode(header), final=True)
        name = transcript.language if transcript else None
        return None if name is None else language_code(name)


class TimedSequence:
    """A running request. decoding: its text, as the paged runner has it. question: once the text
    is complete, if its words can be timed. is_asked: it is on its way."""

    def __init__(self, request: TimedRequest, decoding: PagedSequence) -> None:
        self.request = request
        self.decoding = decoding
        self.question: Question | None = None
        self.is_asked = False
        self._times: tuple[Span, ...] | None = None
        self._is_over = False

    @property
    def key(self) -> str:
        """Its owner's."""
        return self.request.key

    @property
    def num_drafted(self) -> int:
        """Tokens of its draft."""
        return self.decoding.num_drafted

    @property
    def phase(self) -> Phase:
        """What it does next."""
        if self._is_over:
            return Phase.DONE
        return self.decoding.phase if self.question is None else Phase.ALIGN

    @phase.setter
    def phase(self, phase: Phase) -> None:
        assert phase is Phase.DONE  # nothing else is decided from outside
        self._is_over, self.decoding.phase = True, phase

    def demand(self) -> Demand:
        """What it could be fed next."""
        if self.question is None:
            return self.decoding.demand()
        return Demand(len(self.question.tokens), divisible=False, waiting=self.is_asked)

    def complete(self, aligner: Aligner) -> None:
        """If the text is: it is over, or its words are asked about next."""
        if self.decoding.phase is not Phase.DONE or self._is_over or self.question is not None:
            return
        self.question = aligner.question(self.request, self.decoding.generated.tokens)
        self._is_over = self.question is None

    def take(self, times: tuple[Span, ...]) -> None:
        """Of each token of the question's text, in seconds of the audio."""
        assert self.question is not None and len(times) == len(self.question.text)
        self._times, self._is_over = times, True

    def result(self) -> Result:
        """What came of it. Only when it is done."""
        return replace(self.decoding.result(), token_times=self._times)
