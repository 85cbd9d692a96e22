"""Chatting in 4 bits, on a CPU that pretends to be a card: adapters and draft models as ever."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lookhear.engine.core.core import EngineCore
from lookhear.engine.families import family
from lookhear.engine.messages import AdapterLoaded, AnswerCompleted, LoadAdapter
from lookhear.engine.paged.runner import PagedRunner
from tests.engine.chat.asking import ask, make_core, outcome, rest, text, user
from tests.engine.pooling.reading import vectors
from tools.random_checkpoints.adapters import build_random_adapter
from tools.random_checkpoints.pooling import build_reranker

SIZES: dict[str, Any] = {"hidden_size": 64, "intermediate_size": 128, "head_dim": 16}
TOKENS = [5, 9, 40, 7, 33, 2] * 7


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("int4")
    build_random_adapter(path / "adapter", build_reranker(path / "model", seed=3, **SIZES), seed=1)
    build_reranker(path / "small", seed=4, **SIZES)
    return path


@pytest.fixture(autouse=True)
def has_card(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(family, "int8_refusal", lambda device: None)


def hidden(core: EngineCore, model: str) -> np.ndarray:
    (found,) = vectors(core, TOKENS, model=model, normalise=False)
    return np.asarray(found)


def adapted(folder: Path, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Hidden states without the adapter, and what it changes of them."""
    core = make_core(folder / "model", dtype=dtype)
    core.submit(LoadAdapter("r", "m", "a", str(folder / "adapter")))
    (event,) = core.step()
    assert isinstance(event, AdapterLoaded), event
    plain = hidden(core, "m")
    return plain, hidden(core, "m:a") - plain


def test_adapters_change_what_they_change_beside_whole_weights(folder: Path) -> None:
    exact, wanted = adapted(folder, "float32")
    plain, change = adapted(folder, "int4")
    assert np.abs(plain - exact).max() > 1e-3  # it is in 4 bits
    alike = float(change @ wanted) / float(np.linalg.norm(change) * np.linalg.norm(wanted))
    assert alike > 0.9, alike


def said(core: EngineCore) -> str:
    core.submit(ask(user("Tell me about it, please."), max_tokens=60, ignore_end=True))
    events = rest(core)
    assert isinstance(outcome(events), AnswerCompleted)
    return text(events)


@pytest.mark.parametrize("draft", ["model", "small"])
def test_a_smaller_model_drafts(folder: Path, draft: str) -> None:
    """In 4 bits, too: what is the same model is right."""
    alone = said(make_core(folder / "model", dtype="int4", draft="off"))
    core = make_core(folder / "model", dtype="int4", draft=str(folder / draft))
    assert isinstance(core._runner, PagedRunner) and core._runner.drafter is not None
    core._runner.drafter.costs = None  # as long as can be, whatever is measured here
    assert said(core) == alone
    stats = core.stats()
    assert stats["drafted_tokens"] > 0
    if draft == "model":
        assert stats["accepted_tokens"] >= 0.8 * stats["drafted_tokens"]
