"""Answers of a Qwen3-VL with a head on it are those without one, whatever is asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from lookhear.engine.core.core import EngineCore
from lookhear.engine.messages import StartAnswer
from tests.engine.chat.asking import ask, build_wide, make_core, user
from tests.engine.chat.drafting import (
    BRIEFEST,
    IN_FORM,
    assert_same,
    eagerly,
    longer_and_longer,
    passes,
    told,
)
from tools.random_checkpoints.eagle3 import (
    build_random_eagle3,
    build_right_eagle3,
    silence,
)
from tools.random_checkpoints.qwen3_vl import VL_TEXT, build_served_qwen3_vl


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wide(tmp_path_factory.mktemp("vl"))


@pytest.fixture(scope="module")
def plain(folder: Path) -> EngineCore:
    return make_core(folder, draft="off")


@pytest.fixture(scope="module")
def headed(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> list[EngineCore]:
    """Positions of a head are places, without overlap and with it; or M-RoPE's, as those of the
    model."""
    axes = {"head_dim": 16, "rope_scaling": VL_TEXT["rope_parameters"]}
    heads: list[dict[str, Any]] = [{}, axes]
    folders = [tmp_path_factory.mktemp("head") for _ in heads]
    for head, layer in zip(folders, heads, strict=True):
        build_random_eagle3(head, folder, layers=(0, 1, 2), says=120, **layer)
    kinds = [(folders[0], 0), (folders[0], 1), (folders[1], 0)]
    return [eagerly(make_core(folder, draft=str(head), overlap=n)) for head, n in kinds]


@settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(BRIEFEST)  # they are wrong
def test_a_head_changes_nothing_of_an_answer(
    plain: EngineCore, headed: list[EngineCore], asked: list[StartAnswer]
) -> None:
    without = told(plain, asked)
    for core in headed:
        assert_same(told(core, asked), without)


@settings(max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(IN_FORM)
def test_nor_of_one_that_keeps_to_a_schema(
    plain: EngineCore, headed: list[EngineCore], asked: list[StartAnswer]
) -> None:
    without = told(plain, asked)
    for core in headed:
        assert_same(told(core, asked), without)


def test_a_small_budget_of_a_step_cuts_its_guesses(folder: Path, tmp_path: Path) -> None:
    build_random_eagle3(tmp_path, folder, layers=(0, 1, 2), says=120)
    asked = longer_and_longer(5, 3)  # each guess is wrong: as many rounds as tokens
    without = told(make_core(folder, draft="off", max_rows=3), asked)
    for budget in (17, 23):
        core = eagerly(make_core(folder, draft=str(tmp_path), token_budget=budget, max_rows=3))
        assert_same(told(core, asked), without)


# --- one that is right ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def silent(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A model whose layers add nothing, and a head that knows it."""
    large, head = tmp_path_factory.mktemp("silent"), tmp_path_factory.mktemp("right")
    model = build_served_qwen3_vl(large)
    silence(model.model.language_model)
    model.save_pretrained(large)
    build_right_eagle3(head, large, model.model.language_model)
    return large, head


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_head_that_is_right_saves_passes(silent: tuple[Path, Path], temperature: float) -> None:
    large, head = silent
    core = eagerly(make_core(large, draft=str(head)))
    question = ask(
        user("What is it?"), max_tokens=97, ignore_end=True, temperature=temperature, seed=5
    )
    assert passes(core, question) == 7  # the first token, then 16 a pass
    stats = core.stats()
    assert stats["accepted_tokens"] == stats["drafted_tokens"] == 90
    assert stats["draft_passes"] == 90


def test_one_that_is_wrong_is_asked_no_more(folder: Path, tmp_path: Path) -> None:
    """Passes of the head are measured; by and by it is known what it is worth."""
    build_random_eagle3(tmp_path, folder, layers=(0, 1, 2), says=120)
    core = make_core(folder, draft=str(tmp_path))
    asked = [
        ask(user(f"What {n}?"), answer=f"a{n}", max_tokens=60, ignore_end=True) for n in range(12)
    ]
    for question in asked:
        told(core, [question])
    stats = core.stats()
    assert stats["draft_passes"] < 0.5 * stats["decoder_passes"]
