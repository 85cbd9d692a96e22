from __future__ import annotations

import random

import numpy as np
import pytest

from tools.recipes.speech.corpus import Clip, Corpus
from tools.recipes.speech.grammar import LANGUAGES, sentence
from tools.recipes.speech.synthesis import SAMPLE_RATE

WORD_SECONDS = 0.25


@pytest.fixture(scope="session")
def corpus() -> Corpus:
    """Sentences by twenty speakers, in which each word is 0.25 s of noise. Not to be changed."""
    rng, noise = random.Random(0), np.random.default_rng(0)
    clips: list[Clip] = []
    at = 0
    for speaker in range(20):
        for language in LANGUAGES:
            for _ in range(4):
                item = sentence(rng, False)
                words = item.text(language).split()
                n = int(len(words) * WORD_SECONDS * SAMPLE_RATE)
                timed = [(w, i * WORD_SECONDS, (i + 1) * WORD_SECONDS) for i, w in enumerate(words)]
                sounds = (("a", 0.0), ("", len(words) * WORD_SECONDS))
                clips.append(Clip(item, language, "v", speaker, at, at + n, tuple(timed), sounds))
                at += n
    return Corpus(clips, noise.integers(-9000, 9000, at).astype(np.int16))
