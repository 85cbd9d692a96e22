"""Examples of demo-qwen3-aligner: the prompt, its markers' times, where they are looked for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from lookhear.engine.qwen3_asr.alignment import MARKER, aligned_words
from lookhear.engine.tokenizers.qwen import QwenTokenizer
from tests.recipes.conftest import WORD_SECONDS
from tools.recipes.qwen3_aligner.examples import AlignerExampleMaker, Timed, collate_timed
from tools.recipes.qwen3_aligner.tokenizer import bare_words, write_tokenizer
from tools.recipes.qwen3_asr.examples import HOP, LogMel
from tools.recipes.qwen3_asr.network import token_counts
from tools.recipes.qwen3_asr.tokenizer import AUDIO_PAD, AUDIO_START
from tools.recipes.speech.corpus import Corpus
from tools.recipes.speech.synthesis import SAMPLE_RATE
from tools.recipes.whisper.examples import Mix


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> QwenTokenizer:
    folder: Path = tmp_path_factory.mktemp("tokenizer")
    write_tokenizer(folder, 0, 400, 400)
    return QwenTokenizer.from_folder(folder)


def _draw(
    corpus: Corpus, tokenizer: QwenTokenizer, seed: int, count: int, seconds: int, **mix: float
) -> list[Timed]:
    rng = np.random.default_rng(seed)
    maker = AlignerExampleMaker(corpus, tokenizer, {"": 0, "a": 1}, rng, Mix(silence=0.0, **mix))
    return [maker.draw(seconds) for _ in range(count)]


def test_words_are_read_without_their_signs() -> None:
    words = bare_words(0, 50)
    assert all(aligned_words(word) == [word] for word in words)
    assert {"the", "the.", " the"} & set(words) == {"the"}


def test_words_are_mostly_one_token(tmp_path: Path) -> None:
    write_tokenizer(tmp_path, 0, 2400, 2000)
    learned = QwenTokenizer.from_folder(tmp_path)
    words = bare_words(1, 300)
    alone = sum(len(learned.encode(word)) == 1 for word in words)
    assert alone >= 0.98 * len(words)


def test_prompt_has_the_audio_then_two_markers_behind_each_word(
    corpus: Corpus, tokenizer: QwenTokenizer
) -> None:
    pad, marker = tokenizer.token(AUDIO_PAD), tokenizer.token(MARKER)
    for seconds in (1, 3, 9):
        for e in _draw(corpus, tokenizer, seconds, 20, seconds):
            count = int(token_counts(torch.tensor(e.samples // HOP)))
            assert e.tokens[0] == tokenizer.token(AUDIO_START) and e.audio_start == 1
            assert e.tokens[1 : 1 + count] == [pad] * count and pad not in e.tokens[1 + count :]
            rows = [row for row, _ in e.times]
            assert rows == [row for row, token in enumerate(e.tokens) if token == marker]
            assert e.tokens[-2:] == [marker, marker] and len(rows) % 2 == 0 and rows
            assert [b - a for a, b in zip(rows[::2], rows[1::2], strict=True)] == [1] * (
                len(rows) // 2
            )


def test_times_are_of_the_audio_that_is_there(corpus: Corpus, tokenizer: QwenTokenizer) -> None:
    """Each word of this corpus is 0.25 s of noise, but for what was cut off it or played faster."""
    whole = words = 0
    for e in _draw(corpus, tokenizer, 2, 40, 6):
        said = [seconds for _, seconds in e.times]
        assert said == sorted(said) and said[0] >= 0 and said[-1] <= e.samples / SAMPLE_RATE
        lengths = [b - a for a, b in zip(said[::2], said[1::2], strict=True)]
        whole += sum(WORD_SECONDS / 1.13 < length < WORD_SECONDS / 0.89 for length in lengths)
        words += len(lengths)
    assert words > 200 and whole > 0.9 * words


def test_guides_point_from_words_and_markers_to_the_audio(
    corpus: Corpus, tokenizer: QwenTokenizer
) -> None:
    for e in _draw(corpus, tokenizer, 3, 20, 4):
        assert [(row, begin) for row, begin, _ in e.guides] == list(e.times)
        for i, (row, begin, end) in enumerate(e.recalls):
            first, last = e.times[i // 3 * 2], e.times[i // 3 * 2 + 1]
            assert row == (first[0] - 1, first[0], last[0])[i % 3]
            assert (begin, end) == (first[1], last[1])


def test_some_words_are_others_than_were_said(corpus: Corpus, tokenizer: QwenTokenizer) -> None:
    rng = np.random.default_rng(0)
    maker = AlignerExampleMaker(corpus, tokenizer, {"": 0, "a": 1}, rng, Mix(silence=0.0))
    words = ["one"] * 500
    wrong = [word for word in maker._misheard(words, "de") if word != "one"]
    assert 10 < len(wrong) < 60
    german = {w for c in corpus.clips if c.language == "de" for w, _, _ in c.words}
    assert set(wrong) <= {aligned_words(word)[0] for word in german}
    assert words == ["one"] * 500


def test_a_batch_has_all_markers(corpus: Corpus, tokenizer: QwenTokenizer) -> None:
    examples = _draw(corpus, tokenizer, 4, 5, 6)
    batch = collate_timed(examples, 0, LogMel(), np.random.default_rng(0))
    read = batch.heard.tokens[batch.rows[:, 0], batch.rows[:, 1]]
    assert set(read.tolist()) == {tokenizer.token(MARKER)}
    assert len(batch.seconds) == len(batch.rows) == sum(len(e.times) for e in examples)
    guided = batch.heard.guided
    assert torch.equal(guided[:, :2], batch.rows)
    assert bool((guided[:, 3] - guided[:, 2] <= 3).all())
