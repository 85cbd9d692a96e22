"""Going on from a trained demo-qwen3-asr: its folder, the rates, and what stays as it is."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from lookhear.engine.tokenizers.qwen import QwenTokenizer
from tools.recipes.qwen3_asr.finetune import (
    HIGH_RATE,
    LEVEL,
    LOW_RATE,
    WINDOWS,
    Finetune,
    learning_rate,
    prepare,
)
from tools.recipes.qwen3_asr.network import Network, Size
from tools.recipes.qwen3_asr.tokenizer import write_tokenizer
from tools.recipes.qwen3_asr.train import Plan, losses
from tools.recipes.speech import corpus as spoken
from tools.recipes.speech import spoken_questions
from tools.recipes.speech.corpus import Clip, Corpus
from tools.recipes.speech.grammar import LANGUAGES, Sentence, sentence
from tools.recipes.speech.synthesis import SAMPLE_RATE
from tools.recipes.whisper.train import phoneme_classes


def corpus_of(said: Iterator[tuple[int, str, Sentence]]) -> Corpus:
    """Each word is 0.2 s of noise and one sound."""
    clips: list[Clip] = []
    at = 0
    for speaker, language, item in said:
        words = item.text(language).split()
        timed = tuple((w, i / 5, (i + 1) / 5) for i, w in enumerate(words))
        stop = at + len(words) * SAMPLE_RATE // 5
        clips.append(Clip(item, language, "v", speaker, at, stop, timed, (("a", 0.0), ("", 1.0))))
        at = stop
    return Corpus(clips, np.random.default_rng(0).integers(-9000, 9000, at).astype(np.int16))


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    """A prepared folder, from a run that is an untrained network and a state's other fields."""
    run, out = tmp_path_factory.mktemp("run"), tmp_path_factory.mktemp("out")
    rng = random.Random(0)
    speakers = [(s, language) for s in range(9) for language in LANGUAGES for _ in range(4)]
    corpus = corpus_of((s, language, sentence(rng, False)) for s, language in speakers)
    spoken.save(corpus, run / "data", "train")
    write_tokenizer(run / "tokenizer", 0, 400, 400)
    tokenizer = QwenTokenizer.from_folder(run / "tokenizer")
    classes = max(phoneme_classes(corpus).values()) + 1
    net = Network(Size(), max(tokenizer.added.values()) + 1, classes)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, betas=(0.9, 0.98), fused=True)
    state = {"net": net.state_dict(), "optimizer": optimizer.state_dict()}
    torch.save({**state, "step": 7318, "spent": 5100.0}, run / "state.pt")
    asked = corpus_of((s, "en", spoken_questions.question(rng, False)) for s in range(9))
    for name in ("questions", "questions_seen", "questions_unseen"):
        spoken.save(asked, out / "questions", name)
    plan = Plan(str(out), ranks=1, seconds_per_rank=24)
    prepare(run, plan)
    return plan


def test_the_rate_is_level_then_falls_to_the_low_one() -> None:
    assert learning_rate(0.0) == learning_rate(LEVEL) == HIGH_RATE
    rates = [learning_rate(LEVEL + (1 - LEVEL) * part / 10) for part in range(11)]
    assert rates == sorted(rates, reverse=True)
    assert rates[-1] == pytest.approx(LOW_RATE)
    assert sum(WINDOWS.values()) == pytest.approx(1.0)


def test_the_folder_starts_at_step_0_with_the_weights_of_the_run(plan: Plan) -> None:
    out = Path(plan.out)
    state = torch.load(out / "state.pt", weights_only=True)
    assert (state["step"], state["spent"]) == (0, 0.0)
    assert (out / "data" / "train.npy").exists()


def test_questions_and_the_old_sentences_are_drawn_and_the_encoder_stays(plan: Plan) -> None:
    run = Finetune(0, plan)
    drawn = {id(run.source()) for _ in range(60)}
    assert drawn == {id(run.maker), id(run.asker)}
    assert {run.window(0.5) for _ in range(300)} == set(WINDOWS)
    losses(run.net, run.batch(0.5), plan.smoothing).sum().backward()  # type: ignore[no-untyped-call]
    model = run.net.model
    assert all(weight.grad is None for weight in model.audio_tower.parameters())
    assert all(weight.grad is not None for weight in model.language_model.parameters())
    assert all(weight.grad is not None for weight in model.multi_modal_projector.parameters())
