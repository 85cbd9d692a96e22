"""Examples of demo-qwen3-asr: the audio's length, the answer, and where words are looked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from lookhear.engine.qwen3_asr.prompt import parse_transcript
from lookhear.engine.tokenizers.qwen import QwenTokenizer
from tests.recipes.conftest import WORD_SECONDS
from tools.recipes.qwen3_asr.examples import (
    HOP,
    SHORTEST,
    AsrExampleMaker,
    Listening,
    LogMel,
    clamp,
    collate,
    places,
    subframes,
)
from tools.recipes.qwen3_asr.network import token_counts
from tools.recipes.qwen3_asr.tokenizer import AUDIO_PAD, write_tokenizer
from tools.recipes.speech.corpus import Corpus
from tools.recipes.speech.synthesis import SAMPLE_RATE
from tools.recipes.whisper.examples import FRAME_RATE, IGNORE, Mix


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> QwenTokenizer:
    folder: Path = tmp_path_factory.mktemp("tokenizer")
    write_tokenizer(folder, 0, 400, 400)
    return QwenTokenizer.from_folder(folder)


def _draw(
    corpus: Corpus, tokenizer: QwenTokenizer, seed: int, count: int, seconds: int, **mix: float
) -> list[Listening]:
    rng = np.random.default_rng(seed)
    maker = AsrExampleMaker(corpus, tokenizer, {"": 0, "a": 1}, rng, Mix(**mix))
    examples = [maker.draw(seconds) for _ in range(count)]
    assert all(isinstance(example, Listening) for example in examples)
    return [example for example in examples if isinstance(example, Listening)]


def _answer(example: Listening, tokenizer: QwenTokenizer) -> str:
    return tokenizer.decode([i for i in example.targets if i != IGNORE])


def test_prompt_has_a_placeholder_for_each_audio_token(
    corpus: Corpus, tokenizer: QwenTokenizer
) -> None:
    pad, end = tokenizer.token(AUDIO_PAD), tokenizer.token("<|im_end|>")
    words = misread = 0
    for seconds in (1, 3, 9):
        for e in _draw(corpus, tokenizer, seconds, 40, seconds, silence=0.2, prompt=0.3):
            assert SHORTEST <= e.samples <= len(e.wave) == seconds * SAMPLE_RATE
            assert not e.wave[e.samples :].any()
            count = int(token_counts(torch.tensor(e.samples // HOP)))
            assert e.tokens.count(pad) == count
            assert e.tokens[e.audio_start : e.audio_start + count] == [pad] * count
            assert len(e.tokens) == len(e.targets) and e.targets[-1] == end
            known = [i for i, target in enumerate(e.targets) if target != IGNORE]
            assert known == list(range(known[0], len(e.targets)))
            pairs = list(zip(e.tokens[known[0] + 1 :], e.targets[known[0] : -1], strict=True))
            misread += sum(a != b for a, b in pairs)
            words += len(pairs)
    assert 0 < misread < 0.05 * words


def test_silence_has_no_words(corpus: Corpus, tokenizer: QwenTokenizer) -> None:
    answers = {_answer(e, tokenizer) for e in _draw(corpus, tokenizer, 1, 30, 3, silence=1.0)}
    assert answers == {"", "language None<asr_text>"}


def test_uncut_sentence_is_the_answer_in_its_language(
    corpus: Corpus, tokenizer: QwenTokenizer
) -> None:
    texts = {c.sentence.text(c.language) for c in corpus.clips}
    whole = 0
    for e in _draw(corpus, tokenizer, 2, 60, 5, silence=0.0, cut=0.0, late_start=0.0):
        answer = parse_transcript(_answer(e, tokenizer), final=True)
        assert answer is not None
        assert answer.language in (None, "English", "Spanish", "German")
        whole += any(answer.text.startswith(text) for text in texts)
    assert whole > 40


def test_guides_point_from_a_row_to_its_word(corpus: Corpus, tokenizer: QwenTokenizer) -> None:
    for e in _draw(corpus, tokenizer, 3, 30, 4, silence=0.0):
        for (row, b, end), (recalling, b2, end2) in zip(e.guides, e.recalls, strict=True):
            assert (recalling, b2, end2) == (row + 1, b, end)
            assert 0 <= b < end <= len(e.wave) / SAMPLE_RATE + WORD_SECONDS


def test_batch_is_as_long_as_its_longest(corpus: Corpus, tokenizer: QwenTokenizer) -> None:
    examples = _draw(corpus, tokenizer, 4, 6, 12)
    batch = collate(examples, 0, LogMel(), np.random.default_rng(0))
    seconds = -(-max(e.samples for e in examples) // SAMPLE_RATE)
    assert batch.mel.shape == (6, 128, 100 * seconds)
    assert batch.phonemes.shape == (6, 13 * seconds, 4)
    for i, e in enumerate(examples):
        assert not batch.mel[i, :, e.samples // HOP :].any()
    rows = batch.guided
    assert bool((rows[:, 2] < rows[:, 3]).all())
    assert bool((rows[:, 3] <= (batch.starts + batch.counts)[rows[:, 0]]).all())


def test_features_equal_the_feature_extractor_s() -> None:
    from transformers import Qwen3ASRFeatureExtractor

    wave = np.random.default_rng(0).standard_normal(2 * SAMPLE_RATE).astype(np.float32) * 0.1
    wave[SAMPLE_RATE:] *= 1e-6
    extractor: Any = Qwen3ASRFeatureExtractor
    theirs = extractor()(wave, sampling_rate=SAMPLE_RATE, padding=True)
    ours = LogMel()(torch.from_numpy(wave)[None], torch.tensor([200]))
    torch.testing.assert_close(ours, theirs["input_features"])


def test_running_maximum_sets_the_floor_of_closed_windows() -> None:
    mel = torch.full((1, 128, 1600), -9.0)
    mel[0, 0, 100], mel[0, 0, 1000] = -2.0, 1.0
    frames = torch.tensor([1600])
    whole = clamp(mel, frames)
    running = clamp(mel, frames, None, torch.tensor([True]))
    assert float(whole.min()) == float(whole[0, 5, 0]) == (1 - 8 + 4) / 4
    assert float(running[0, 5, 0]) == (-9 + 4) / 4
    assert float(running[0, 5, 900]) == (1 - 8 + 4) / 4


def test_subframes_of_a_second_do_not_reach_into_the_next() -> None:
    labels = torch.arange(2 * FRAME_RATE)[None]
    rows = subframes(labels, torch.tensor([20]))
    assert rows.shape == (1, 26, 4)
    assert rows[0, 12].tolist() == [48, 49, IGNORE, IGNORE]
    assert rows[0, 13].tolist() == [50, 51, 52, 53]
    assert bool((rows[0, 20:] == IGNORE).all())


def test_places_of_a_word() -> None:
    found = places([[(30, 1.0, 1.16)]], torch.tensor([10]), torch.tensor([26]))
    assert found.tolist() == [[0, 30, 10 + 12, 10 + 13 + 3]]
