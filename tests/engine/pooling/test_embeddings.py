"""Vectors of embeddings that clients sent: those of the very tokens of a text are the text's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from lookhear.engine.core.core import EngineCore
from lookhear.engine.messages import CloseSession, EmbeddingsPart, HoldEmbeddings, Part, TextPart
from lookhear.engine.tokenizers.qwen import QwenTokenizer
from tests.engine.chat.asking import hold, image, make_core
from tests.engine.pooling.reading import refusal, vectors
from tools.random_checkpoints.pooling import build_embedder, build_reranker
from tools.random_checkpoints.qwen3_vl import build_served_qwen3_vl

STORY = "Tell me a long story about two kings and a queen, please, as slowly as you can."
BUILDERS: dict[str, Callable[[Path], Any]] = {
    "embedder": lambda folder: build_embedder(folder, seed=3, ending=False),
    "chatting": lambda folder: build_reranker(folder, seed=3),
    "seeing": lambda folder: build_served_qwen3_vl(folder, seed=3),
}


@pytest.fixture(scope="module", params=BUILDERS)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp(request.param)
    BUILDERS[request.param](folder)
    return folder


def core_of(folder: Path, **changes: object) -> EngineCore:
    return make_core(folder, enable_prompt_embeds=True, draft="off", **changes)


def hold_text(core: EngineCore, folder: Path, text: str, name: str = "e") -> EmbeddingsPart:
    tokens = QwenTokenizer.from_folder(folder).encode(text)
    runner: Any = core._runner
    rows = runner._decoder.embed(torch.tensor(tokens)).float().numpy()
    core.submit(HoldEmbeddings("p", "m", name, np.array(rows)))
    return EmbeddingsPart(name)


@pytest.mark.parametrize("budget", [17, 512])
def test_vectors_are_those_of_the_text(folder: Path, budget: int) -> None:
    """Whole, in pieces, beside another, and from the cache."""
    core = core_of(folder, token_budget=budget)
    expected = vectors(core_of(folder), STORY, "And now something else")
    for _ in range(2):
        part = hold_text(core, folder, STORY)
        found = vectors(core, [part], "And now something else")  # closes the session behind it
        assert np.abs(found - expected).max() <= 1e-5


def test_texts_and_embeddings_are_lines_of_one_text(folder: Path) -> None:
    """As texts of one message are."""
    core = core_of(folder)
    for order in (0, 1):
        given: list[Part] = [TextPart("So it goes."), hold_text(core, folder, "Well then")]
        told: list[Part] = [TextPart("So it goes."), TextPart("Well then")]
        if order:
            given.reverse()
            told.reverse()
        assert np.abs(vectors(core, given) - vectors(core, told)).max() <= 1e-5


def test_another_width_is_refused(folder: Path) -> None:
    core = core_of(folder)
    core.submit(HoldEmbeddings("p", "m", "e", np.ones((3, 7), np.float32)))
    failed = refusal(core, "a text", [EmbeddingsPart("e")])
    assert (failed.side, failed.index, failed.code) == ("document", 1, "invalid_value")
    assert "expected embeddings of width" in failed.message and "got 7" in failed.message


def test_a_judge_of_texts_reads_texts(tmp_path: Path) -> None:
    build_reranker(tmp_path, seed=3)
    core = core_of(tmp_path)
    failed = refusal(core, [hold_text(core, tmp_path, STORY)], queries=["a query"])
    assert (failed.side, failed.message) == ("document", "expected a text, got embeddings")


def test_beside_pictures(tmp_path: Path) -> None:
    build_served_qwen3_vl(tmp_path, seed=3)
    core = core_of(tmp_path, token_budget=24)
    core.submit(hold("a", 1, "p"))
    parts: list[Part] = [image("a"), hold_text(core, tmp_path, "What is it?")]
    given = vectors(core, parts)
    core.submit(hold("a", 1, "p"))
    told = vectors(core, [parts[0], TextPart("What is it?")])
    assert np.abs(given - told).max() <= 1e-5
    core.submit(CloseSession("p"))
