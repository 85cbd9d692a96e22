"""The aligner in training: where it begins, what it is told, and its folder, from which
transformers and our engine compute what it does."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from lookhear.engine.families.qwen3_aligner import is_aligner
from lookhear.engine.models.qwen3_aligner import STEP_MS, Qwen3AlignerModel
from lookhear.engine.qwen3_asr.alignment import MARKER, aligned_words, alignment_prompt
from lookhear.engine.tokenizers.qwen import QwenTokenizer
from tests.recipes.qwen3_asr.test_finetune import corpus_of
from tools.recipes.qwen3_aligner.export import load_network, write_folder
from tools.recipes.qwen3_aligner.network import LABELS, STEP_SECONDS, AlignerNetwork
from tools.recipes.qwen3_aligner.start import DEMO, started
from tools.recipes.qwen3_aligner.timing import clip_errors
from tools.recipes.qwen3_aligner.tokenizer import write_tokenizer
from tools.recipes.qwen3_aligner.train import (
    LATE_WINDOWS,
    PLACES_FIRST,
    THAW,
    WINDOWS,
    AlignerRun,
    cross_entropy,
    place_times,
    targets,
)
from tools.recipes.qwen3_asr.examples import LogMel
from tools.recipes.qwen3_asr.network import Size, token_counts
from tools.recipes.qwen3_asr.train import Plan
from tools.recipes.speech import corpus as spoken
from tools.recipes.speech.corpus import Corpus
from tools.recipes.speech.grammar import LANGUAGES, sentence
from tools.recipes.speech.spoken_questions import question

SMALL = Size(channels=4, encoder_width=16, encoder_layers=2, width=24, inner=32, layers=2)
TEXT = "the music in the kitchen"


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tokenizer")
    write_tokenizer(folder, 0, 400, 400)
    return folder


@pytest.fixture(scope="module")
def exported(
    learned: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[AlignerNetwork, Path]:
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("run") / "model"
    network = AlignerNetwork(SMALL, 408, 50)
    with torch.no_grad():
        for weight in network.parameters():
            weight.copy_(weight.half())  # as the folder will hold it
    write_folder(network, learned, folder)
    return network, folder


def test_transformers_and_our_engine_compute_the_same(
    exported: tuple[AlignerNetwork, Path],
) -> None:
    from transformers import Qwen3ASRForTokenClassification

    network, folder = exported
    reader: Any = Qwen3ASRForTokenClassification
    theirs = reader.from_pretrained(folder, dtype=torch.float32)
    ours = Qwen3AlignerModel.from_folder(folder)
    frames = torch.tensor([937])
    mel = torch.randn(1, 128, 1000)
    mel[:, :, 937:] = 0
    counts = token_counts(frames)
    prompt = alignment_prompt(QwenTokenizer.from_folder(folder), TEXT.split(), int(counts))
    tokens = torch.tensor([prompt])
    with torch.no_grad():
        hidden, _, attended = network.read(mel, counts, tokens, torch.tensor([1]))
        said = network.score(hidden)[0]
        mask = (torch.arange(1000)[None] < frames[:, None]).long()
        wanted = theirs(input_ids=tokens, input_features=mel, input_features_mask=mask).logits[0]
    torch.testing.assert_close(said, wanted, atol=1e-4, rtol=1e-4)
    (found,) = ours.classify([prompt], [mel[0, :, :937]])
    marked = tokens[0] == ours.marker
    torch.testing.assert_close(found, wanted[marked], atol=1e-4, rtol=1e-4)
    assert is_aligner(folder) and (ours.labels, ours.step_ms) == (50, STEP_MS)
    assert [w.shape for w in attended] == [(1, 4, len(prompt), len(prompt))] * 2


def test_the_processor_asks_as_we_do(exported: tuple[AlignerNetwork, Path]) -> None:
    from transformers import AutoProcessor

    _, folder = exported
    reader: Any = AutoProcessor
    processor = reader.from_pretrained(folder)
    wave = np.random.default_rng(0).standard_normal(20_000).astype(np.float32)
    said = "Don't stop: the  music!"
    inputs, words = processor.prepare_forced_aligner_inputs(
        audio=[wave], transcript=said, language="en"
    )
    assert words == [aligned_words(said)]
    count = int(token_counts(torch.tensor(20_000 // 160)))
    prompt = alignment_prompt(QwenTokenizer.from_folder(folder), aligned_words(said), count)
    assert inputs["input_ids"][0].tolist() == prompt


def test_it_begins_with_what_demo_qwen3_asr_knows(learned: Path) -> None:
    tokenizer = QwenTokenizer.from_folder(learned)
    net = started(tokenizer, max(tokenizer.added.values()) + 1)
    state, before = net.state_dict(), load_file(DEMO / "model.safetensors")
    embeddings = "model.language_model.embed_tokens.weight"
    assert set(state) == {*before, "score.weight"} and state["score.weight"].shape[0] == LABELS
    same = [name for name in before if torch.equal(state[name], before[name].float())]
    assert set(same) == set(before) - {embeddings}
    theirs = QwenTokenizer.from_folder(DEMO)
    for mine, old in (("the", " the"), ("es", " es")):
        (token,), (source,) = tokenizer.encode(mine), theirs.encode(old)
        assert torch.equal(state[embeddings][token], before[embeddings][source].float())
    mark = state[embeddings][tokenizer.token(MARKER)]
    assert torch.equal(mark, before[embeddings][theirs.token(MARKER)].float())


def test_labels_are_the_steps_around_a_time() -> None:
    wanted = targets(torch.tensor([0.0, 0.8, 1.0]), 30)
    torch.testing.assert_close(wanted.sum(1), torch.ones(3))
    assert wanted.argmax(1)[:2].tolist() == [0, 10]
    assert wanted[2, 12] == pytest.approx(float(wanted[2, 13]), rel=1e-3)  # between both
    exact = wanted.clamp(min=1e-9).log()
    assert cross_entropy(exact, torch.tensor([0.0, 0.8, 1.0])) < cross_entropy(
        exact, torch.tensor([0.3, 0.4, 1.5])
    )


def test_places_of_a_second_are_thirteen() -> None:
    times = place_times(27)
    assert times[0] == pytest.approx(0.04) and times[13] == pytest.approx(1.04)
    assert times[26] == pytest.approx(2.04)
    assert bool((times.diff() > 0).all())


def test_places_come_first_then_markers_then_the_encoder(learned: Path, tmp_path: Path) -> None:
    rng = random.Random(0)
    said = [(s, language) for s in range(9) for language in LANGUAGES for _ in range(4)]
    corpus = corpus_of((s, language, sentence(rng, False)) for s, language in said)
    spoken.save(corpus, tmp_path / "data", "train")
    asked = corpus_of((s, "en", question(rng, False)) for s in range(9))
    spoken.save(asked, tmp_path / "questions", "questions")
    shutil.copytree(learned, tmp_path / "tokenizer")
    run = AlignerRun(0, Plan(str(tmp_path), ranks=1, seconds_per_rank=24))
    assert run.window(PLACES_FIRST / 2) == max(WINDOWS)
    assert {run.window(0.3) for _ in range(500)} == set(WINDOWS)
    assert {run.window(0.9) for _ in range(500)} == set(LATE_WINDOWS)
    assert sum(WINDOWS.values()) == pytest.approx(1.0)
    assert sum(LATE_WINDOWS.values()) == pytest.approx(1.0)

    first = run.losses(0.0)
    assert first[1] > 0 and first[[0, 2, 3]].tolist() == [0, 0, 0]
    for progress, thawed in ((THAW - 0.1, False), (THAW, True)):
        run.optimizer.zero_grad()
        parts = run.losses(progress)
        assert bool((parts > 0).all()) and len(parts) == len(run.parts) == len(run.weights())
        (parts @ run.weights()).backward()  # type: ignore[no-untyped-call]
        tower = list(run.net.model.audio_tower.parameters())
        assert all((weight.grad is not None) == thawed for weight in tower)
        assert run.net.score.weight.grad is not None


def test_errors_of_an_untrained_network_are_large(corpus: Corpus, learned: Path) -> None:
    tokenizer = QwenTokenizer.from_folder(learned)
    net = AlignerNetwork(SMALL, 408, 50)
    clips = corpus.clips[:3]
    errors = clip_errors(net, tokenizer, corpus, clips, LogMel())
    words = sum(len(clip.words) for clip in clips)
    assert errors.shape == (words, 2) and np.abs(errors).max() > STEP_SECONDS


def test_state_of_a_run_is_loaded(tmp_path: Path) -> None:
    network = AlignerNetwork(Size(), 408, 50)
    torch.save({"net": network.state_dict()}, tmp_path / "state.pt")
    loaded = load_network(tmp_path)
    assert (loaded.vocabulary, loaded.labels) == (408, 50)
    assert torch.equal(loaded.score.weight, network.score.weight)
