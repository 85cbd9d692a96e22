"""The shipped demo-qwen3-aligner: a standard folder that says when words were said."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from lookhear.engine.checkpoints.traits import Traits
from lookhear.engine.models.qwen3_aligner import Qwen3AlignerModel
from lookhear.engine.qwen3_asr.alignment import aligned_words, alignment_prompt, read_alignment
from lookhear.engine.tokenizers.qwen import QwenTokenizer
from lookhear.kernels import log_mel, mel_filters
from tools.recipes.qwen3_aligner.evaluate import Deviation, Timer, long_recordings, utterances
from tools.recipes.whisper.evaluate import Item, load_items

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "tools" / "demo" / "lookhear_demo" / "qwen3_aligner"
DATA = ROOT / "tests" / "data"
# Seconds. Labels of 80 ms are 20 ms off by themselves in the median, and 38 in the 95th of 100;
# measured over all utterances (metrics.json): 20 and 47.
MEDIAN, P95 = 0.035, 0.1
TOLERANCE = 1e-4


@pytest.fixture(scope="module")
def theirs() -> Timer:
    torch.set_num_threads(1)
    return Timer(FOLDER)


@pytest.fixture(scope="module")
def items() -> list[Item]:
    return load_items(DATA, every=24)


def test_folder_is_at_most_10_mb_and_a_toy() -> None:
    assert sum(p.stat().st_size for p in FOLDER.iterdir()) <= 10_000_000
    assert Traits.from_folder(FOLDER).toy


def test_our_engine_says_what_transformers_says(theirs: Timer, items: list[Item]) -> None:
    model, tokenizer = Qwen3AlignerModel.from_folder(FOLDER), QwenTokenizer.from_folder(FOLDER)
    dims = model.encoder.dims
    for item in (items[0], items[-1]):
        said, language = item.entry["text"], item.entry["language"]
        words = aligned_words(said)
        mel = log_mel(torch.from_numpy(item.samples)[None], mel_filters(dims.num_mels))[0]
        prompt = alignment_prompt(tokenizer, words, dims.num_tokens(mel.shape[1]))
        logits, ids, read = theirs.logits(item.samples, said, language)
        assert ids[0].tolist() == prompt and read == [words]
        (ours,) = model.classify([prompt], [mel])
        assert (ours - logits[0][ids[0] == model.marker]).abs().max().item() <= TOLERANCE
        timed = read_alignment(words, ours.argmax(-1).tolist(), model.step_ms)
        told = theirs.times(item.samples, said, language)
        assert [(word.text, word.start, word.end) for word in timed] == told


def test_words_of_unseen_sentences_are_timed(theirs: Timer, items: list[Item]) -> None:
    found = utterances(theirs, items)
    assert len(found) == 7  # three languages, two splits, and all
    for group, errors in found.items():
        assert max(errors["start_median"], errors["end_median"]) <= MEDIAN, (group, errors)
    assert max(found["all"]["start_p95"], found["all"]["end_p95"]) <= P95, found["all"]


def test_spoken_questions_are_timed(theirs: Timer) -> None:
    errors = utterances(theirs, load_items(DATA, "questions.json", 8))["all"]
    assert max(errors["start_median"], errors["end_median"]) <= MEDIAN, errors


def test_several_sentences_are_timed(theirs: Timer) -> None:
    for language, errors in long_recordings(theirs, DATA, 12.0).items():
        assert max(errors["start_median"], errors["end_median"]) <= MEDIAN, (language, errors)


def test_times_follow_the_audio(theirs: Timer, items: list[Item]) -> None:
    """Half a second of silence in front, and all words come half a second later."""
    item = items[0]
    late = np.concatenate([np.zeros(8000, np.float32), item.samples])
    text, language = item.entry["text"], item.entry["language"]
    before, after = theirs.times(item.samples, text, language), theirs.times(late, text, language)
    moved = [b[1] - a[1] for a, b in zip(before, after, strict=True)]
    assert abs(float(np.median(moved)) - 0.5) <= 0.04, moved


def test_errors_are_told_by_group() -> None:
    found = Deviation()
    found.add("a", [("x", 1.0, 2.0), ("y", 2.0, 3.0)], [("x", 1.1, 1.7), ("y", 2.3, 2.9)])
    assert found.table() == {
        "a": {"start_median": 0.2, "start_p95": 0.29, "end_median": 0.2, "end_p95": 0.29}
    }
