"""Training windows: targets say what was heard, and only that. No synthesiser is needed."""

from __future__ import annotations

import numpy as np
import pytest

from tests.recipes.conftest import WORD_SECONDS
from tools.recipes.speech.corpus import Corpus
from tools.recipes.speech.synthesis import SAMPLE_RATE
from tools.recipes.whisper import tokenizer as tk
from tools.recipes.whisper.examples import FRAME_RATE, IGNORE, Example, ExampleMaker, Mix
from tools.recipes.whisper.tokenizer import TextCoder, train_merges


@pytest.fixture(scope="module")
def coder() -> TextCoder:
    return TextCoder(*train_merges(0, merges=300))


def _maker(corpus: Corpus, coder: TextCoder, seed: int, **mix: float) -> ExampleMaker:
    rng = np.random.default_rng(seed)
    return ExampleMaker(corpus, coder, {"": 0, "a": 1}, rng, Mix(**mix))


def _body(example: Example) -> list[int]:
    return [i for i in example.targets if i != IGNORE and i < tk.EOT]


def test_shapes_and_shift(corpus: Corpus, coder: TextCoder) -> None:
    maker = _maker(corpus, coder, 1, silence=0.2)
    for k in range(200):
        seconds = 1 + k % 8
        e = maker.draw(seconds)
        assert e.wave.shape == (seconds * SAMPLE_RATE,)
        assert e.wave.dtype == np.float32
        assert float(np.abs(e.wave).max()) <= 1
        assert e.phonemes.shape == (seconds * FRAME_RATE,)
        assert len(e.tokens) == len(e.targets)
        assert e.targets[-1] == tk.EOT
        for token, target in zip(e.tokens[1:], e.targets, strict=False):
            is_told = tk.SOT in e.tokens[: e.tokens.index(token) + 1]
            assert target in (token, IGNORE) or e.tokens[0] == tk.SOT or is_told
        for row, begin, end in e.guides:
            assert 0 <= row < len(e.targets)
            assert begin <= end
            assert e.targets[row] != IGNORE


def test_no_loss_on_the_prompt(corpus: Corpus, coder: TextCoder) -> None:
    maker = _maker(corpus, coder, 2, prompt=1.0, silence=0.0)
    for _ in range(50):
        e = maker.draw(4)
        start = e.tokens.index(tk.SOT)
        assert e.tokens[0] == tk.START_OF_PREV
        assert all(target == IGNORE for target in e.targets[:start])


def test_silence_has_no_text(corpus: Corpus, coder: TextCoder) -> None:
    maker = _maker(corpus, coder, 3, silence=1.0)
    for _ in range(50):
        e = maker.draw(3)
        assert _body(e) == []
        assert tk.NO_SPEECH in e.targets


def test_cut_audio_has_only_the_words_heard(corpus: Corpus, coder: TextCoder) -> None:
    maker = _maker(corpus, coder, 4, cut=1.0, silence=0.0, late_start=0.0, translate=0.0, noisy=0.0)
    texts = [c.sentence.text(c.language) for c in corpus.clips]
    shorter = 0
    for _ in range(100):
        e = maker.draw(4)
        text = coder.decode(_body(e))
        heard = text.split()
        spoken = np.flatnonzero(e.wave)
        # 0.9 is the slowest resampling: words last at most 0.28 s, three quarters count.
        limit = (spoken[-1] + 1) / SAMPLE_RATE / (WORD_SECONDS / 1.12) + 1
        assert len(heard) <= limit
        shorter += text not in texts
    assert shorter > 50


def test_whole_sentences_keep_their_punctuation(corpus: Corpus, coder: TextCoder) -> None:
    maker = _maker(corpus, coder, 5, cut=0.0, silence=0.0, late_start=0.0, translate=0.0)
    texts = {c.sentence.text(c.language) for c in corpus.clips}
    whole = sum(coder.decode(_body(maker.draw(4))) in texts for _ in range(60))
    assert whole > 30


def test_translation_targets_are_english(corpus: Corpus, coder: TextCoder) -> None:
    maker = _maker(corpus, coder, 6, cut=0.0, silence=0.0, late_start=0.0, translate=1.0)
    english = {c.sentence.text("en") for c in corpus.clips}
    seen = 0
    for _ in range(60):
        e = maker.draw(4)
        if tk.TRANSLATE in e.tokens and len(e.guides) <= 2:
            text = coder.decode(_body(e))
            if text.count(".") + text.count("?") == 1:
                assert text in english
                seen += 1
    assert seen > 5
