"""A scripted Qwen3-ASR for policy tests: a real tokenizer, two-second windows, a perfect ear."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from lookhear.engine.core.request import Priority, Result, StopReason
from lookhear.engine.messages import SAMPLE_RATE, TranscriptionSettings
from lookhear.engine.models.audio_encoder import AudioDims
from lookhear.engine.paged.request import PagedRequest
from lookhear.engine.qwen3_asr.prompt import ASR_TEXT
from lookhear.engine.qwen3_asr.recognizer import AsrConfig, AsrRecognizer
from lookhear.engine.speech.recognizer import Stretch
from lookhear.engine.speech.text.hypothesis import Hypothesis
from lookhear.engine.tokenizers.qwen import QwenTokenizer
from tests.engine.speech.scripted import Speech
from tools.random_checkpoints.qwen3 import write_qwen_tokenizer

DIMS = AudioDims(
    num_mels=20,
    width=8,
    layers=1,
    heads=1,
    ffn=8,
    channels=2,
    out_width=8,
    chunk_frames=100,
    window_frames=200,
)
WINDOW = 2 * SAMPLE_RATE  # samples of a window
WINDOW_TOKENS = 26


def make_tokenizer(folder: Path) -> QwenTokenizer:
    write_qwen_tokenizer(folder)
    return QwenTokenizer.from_folder(folder)


class Ear(AsrRecognizer):
    """Remembers what it was asked."""

    def __init__(self, tokenizer: QwenTokenizer, *, freeze: bool = True, **changes: object) -> None:
        wanted = TranscriptionSettings(model="m", **changes)  # type: ignore[arg-type]
        super().__init__(AsrConfig(tokenizer, DIMS, freeze), wanted)
        self.tokenizer = tokenizer
        self.stretches: list[Stretch] = []

    def request(self, stretch: Stretch) -> PagedRequest:
        self.stretches.append(stretch)
        request = super().request(stretch)
        assert isinstance(request, PagedRequest)  # it has no aligner
        return request

    def ask(
        self,
        samples: np.ndarray,
        *,
        start: int = 0,
        language: str | None = None,
        committed: Sequence[int] = (),
        draft: Hypothesis | None = None,
    ) -> PagedRequest:
        stretch = Stretch("s/t", Priority.LIVE, start, samples, language, tuple(committed), draft)
        return self.request(stretch)

    def heard(self, result: Result) -> Hypothesis:
        """What the result of the last request says."""
        return self.hypothesis(result, self.stretches[-1])

    def answer(self, text: str) -> tuple[int, ...]:
        """The tokens of an answer in which <asr_text> is the token."""
        tag, ids = self.tokenizer.token(ASR_TEXT), []
        for i, part in enumerate(text.split(ASR_TEXT)):
            ids += [tag] * (i > 0) + self.tokenizer.encode(part)
        return tuple(ids)


def result_of(tokens: Sequence[int], stop: StopReason = StopReason.END) -> Result:
    return Result("s/t", tuple(tokens), (-0.1,) * len(tokens), 0, stop)


class AsrSpeech(Speech):
    """words, without spaces, as `Speech` has them said. ear: whose answers `hear` gives. language:
    as a header names it. between: what stands between two words."""

    language, between = "English", " "

    def __init__(
        self, words: Sequence[str], times: Sequence[tuple[float, float]], ear: Ear
    ) -> None:
        super().__init__(words, times)
        self.ear = ear

    def hear(self, request: PagedRequest, start: int) -> Result:  # type: ignore[override]
        """What a perfect model writes behind the forced words: the words it has heard three
        quarters of, and a wrong guess at one that it has heard less of."""
        stretch = self.ear.stretches[-1]
        assert stretch.start == start
        begin, end = start / SAMPLE_RATE, (start + len(stretch.samples)) / SAMPLE_RATE
        said = []
        for word, (a, b) in zip(self.words, self.times, strict=True):
            if a < begin - 0.05:
                continue
            if a + 0.75 * (b - a) <= end:
                said.append(word)
            elif a + 0.3 * (b - a) <= end:
                said.append("wrong")
        text = self.ear.tokenizer.encode(self.between.join(said))
        tag = self.ear.tokenizer.token(ASR_TEXT)
        header: tuple[int, ...] = ()
        forced: tuple[int, ...] = ()
        if tag in request.tokens:
            at = len(request.tokens) - 1 - request.tokens[::-1].index(tag)
            forced = request.tokens[at + 1 :]
        else:
            heard = f"language {self.language}<asr_text>" if said else "language None"
            header = self.ear.answer(heard)
        assert forced == stretch.committed
        assert tuple(text[: len(forced)]) == forced, "words were committed that nobody said"
        return result_of((*header, *text[len(forced) :]))
