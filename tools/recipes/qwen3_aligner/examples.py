"""Training examples of demo-qwen3-aligner: audio, its words, and the times of their markers.

What is said and heard is drawn by `qwen3_asr.examples`, for a live session asks about the same
audio with the text that demo-qwen3-asr made of it: cut anywhere, now and then with a wrong word.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lookhear.engine.qwen3_asr.alignment import MARKER, aligned_words, alignment_prompt
from lookhear.engine.tokenizers.qwen import QwenTokenizer
from tools.recipes.qwen3_asr.examples import (
    HOP,
    AsrExampleMaker,
    Batch,
    Listening,
    LogMel,
    collate,
)
from tools.recipes.qwen3_asr.network import token_counts
from tools.recipes.speech.corpus import Clip, Corpus
from tools.recipes.speech.synthesis import SAMPLE_RATE
from tools.recipes.whisper.examples import IGNORE, Heard, Mix

MISREAD_EXAMPLES, MISREAD_WORDS = 0.2, 0.06


@dataclass
class Timed(Listening):
    """times: (row, seconds) of each marker, two a word. No row has a target among the tokens."""

    times: tuple[tuple[int, float], ...] = ()


class AlignerExampleMaker(AsrExampleMaker):
    """Draws examples in the layout of Qwen3-ForcedAligner; all have words."""

    def __init__(
        self,
        corpus: Corpus,
        tokenizer: QwenTokenizer,
        phoneme_ids: dict[str, int],
        rng: np.random.Generator,
        mix: Mix,
    ) -> None:
        super().__init__(corpus, tokenizer, phoneme_ids, rng, mix)
        self._marker = tokenizer.token(MARKER)

    def draw(self, seconds: int) -> Timed:
        """One example in a window of `seconds`. Where no word was heard, another is drawn."""
        while True:
            example = self._speech(seconds)
            assert isinstance(example, Timed), example
            if example.times:
                return example

    def _assemble(
        self,
        wave: NDArray[np.float32],
        frames: NDArray[np.int64],
        heard: list[Heard],
        clip: Clip,
        partial: bool,
    ) -> Timed:
        samples = self._length(wave)
        end = samples / SAMPLE_RATE
        spoken = [
            (bare, min(b, end), min(e, end))
            for sentence in heard
            for word, b, e in sentence.words
            for bare in aligned_words(word)
        ]
        words = [word for word, _, _ in spoken]
        if self.rng.random() < MISREAD_EXAMPLES:
            words = self._misheard(words, clip.language)
        count = int(token_counts(torch.tensor(samples // HOP)))
        tokens = alignment_prompt(self.tokenizer, words, count)
        markers = [row for row, token in enumerate(tokens) if token == self._marker]
        times: list[tuple[int, float]] = []
        edges: list[tuple[int, float, float]] = []
        recalls: list[tuple[int, float, float]] = []
        for (_, b, e), first, last in zip(spoken, markers[::2], markers[1::2], strict=True):
            times += [(first, b), (last, e)]
            edges += [(first, b, b), (last, e, e)]
            recalls += [(row, b, e) for row in (first - 1, first, last)]
        return Timed(
            wave,
            tokens,
            [IGNORE] * len(tokens),
            frames,
            edges,
            samples,
            1,
            tuple(recalls),
            tuple(times),
        )

    def _misheard(self, words: list[str], language: str) -> list[str]:
        """Some of them replaced by others of the language: a text may be wrong."""
        rng, pool = self.rng, self._language[language]
        found = list(words)
        for place in range(len(words)):
            if rng.random() < MISREAD_WORDS:
                others = self.corpus.clips[pool[int(rng.integers(len(pool)))]].words
                found[place] = aligned_words(others[int(rng.integers(len(others)))][0])[0]
        return found


@dataclass
class TimedBatch:
    """heard: as for demo-qwen3-asr. rows: `[n, 2]`, example and row of each marker. seconds:
    `[n]`, the times that they stand for."""

    heard: Batch
    rows: Tensor
    seconds: Tensor


def collate_timed(
    examples: list[Timed], padding: int, logmel: LogMel, rng: np.random.Generator
) -> TimedBatch:
    """See `collate`."""
    heard = collate(list(examples), padding, logmel, rng)
    rows = [(i, row) for i, e in enumerate(examples) for row, _ in e.times]
    seconds = [time for e in examples for _, time in e.times]
    return TimedBatch(heard, torch.tensor(rows).view(-1, 2), torch.tensor(seconds))
