"""Answers with drafts are those without, whatever is asked for, and take fewer passes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from lookhear.engine.checkpoints.loader import CheckpointError
from lookhear.engine.core.core import EngineCore
from lookhear.engine.drafts.pace import PassCosts
from lookhear.engine.messages import StartAnswer
from lookhear.engine.paged.runner import PagedRunner
from tests.engine.chat.asking import (
    ask,
    build_wide,
    make_core,
    user,
)
from tests.engine.chat.drafting import (
    BRIEF,
    BRIEFEST,
    IN_FORM,
    QUESTIONS,
    assert_same,
    eagerly,
    longer_and_longer,
    passes,
    told,
)
from tools.random_checkpoints.qwen3 import build_random_qwen3
from tools.random_checkpoints.qwen3_vl import build_served_qwen3_vl

FORM = {
    "type": "object",
    "properties": {
        "customer_name": {"type": "string", "maxLength": 6},
        "kind_of_question": {"enum": ["about a picture", "about a text"]},
        "number_of_answers": {"type": "integer", "minimum": 0, "maximum": 50},
    },
    "required": ["customer_name", "kind_of_question", "number_of_answers"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wide(tmp_path_factory.mktemp("vl"))


@pytest.fixture(scope="module")
def plain(folder: Path) -> EngineCore:
    return make_core(folder, draft="off")


@pytest.fixture(scope="module")
def by_overlap(folder: Path) -> list[EngineCore]:
    return [make_core(folder, draft="ngram", overlap=overlap) for overlap in (0, 1)]


@pytest.fixture(params=[0, 1], ids=["overlap 0", "overlap 1"])
def drafted(by_overlap: list[EngineCore], request: pytest.FixtureRequest) -> EngineCore:
    which: int = request.param
    return by_overlap[which]


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(QUESTIONS)
def test_drafts_change_nothing_of_an_answer(
    plain: EngineCore, by_overlap: list[EngineCore], asked: list[StartAnswer]
) -> None:
    without = told(plain, asked)
    for drafted in by_overlap:
        assert_same(told(drafted, asked), without)


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(IN_FORM)
def test_nor_of_one_that_keeps_to_a_schema(
    plain: EngineCore, by_overlap: list[EngineCore], asked: list[StartAnswer]
) -> None:
    without = told(plain, asked)
    for drafted in by_overlap:
        assert_same(told(drafted, asked), without)


def test_what_repeats_itself_takes_a_third_of_the_passes(
    plain: EngineCore, drafted: EngineCore
) -> None:
    question = ask(
        user("What is it?"), max_tokens=200, ignore_end=True, frequency_penalty=-2.0
    )  # it likes what it has said
    counted = drafted.stats()["accepted_tokens"]
    few, many = passes(drafted, question), passes(plain, question)
    assert many == 200
    assert few <= many / 3
    assert drafted.stats()["accepted_tokens"] - counted >= many - few - 1
    assert drafted.stats()["drafted_tokens"] >= drafted.stats()["accepted_tokens"]


def test_what_a_schema_forces_takes_next_to_no_passes(
    plain: EngineCore, drafted: EngineCore
) -> None:
    question = ask(user("What?"), schema=json.dumps(FORM), max_tokens=200, temperature=1.0, seed=3)
    assert passes(drafted, question) <= passes(plain, question) / 2


def test_what_a_draft_guesses_beyond_the_end_is_not_said(folder: Path) -> None:
    """A budget of tokens per step, and a limit of the answer, end a draft anywhere."""
    asked = longer_and_longer(20, 7)
    without = told(make_core(folder, draft="off", max_rows=3), asked)
    for budget in (17, 20, 23):
        small = make_core(folder, draft="ngram", token_budget=budget, max_rows=3)
        assert_same(told(small, asked), without)


def test_auto_measures_and_off_guesses_nothing(folder: Path, plain: EngineCore) -> None:
    auto = make_core(folder)
    assert auto.stats()["prompt_tokens_read"] == 0 and auto.stats()["cached_blocks"] == 0
    question = ask(user("What is it?"), max_tokens=200, ignore_end=True)
    assert_same(told(auto, [question]), told(plain, [question]))
    assert plain.stats()["drafted_tokens"] == 0


# --- by another model ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def guessing(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A model that is always right, as it is the same one; and one that is hardly ever."""
    another = tmp_path_factory.mktemp("small")
    build_served_qwen3_vl(another, seed=7)
    return {"itself": folder, "another": another}


@pytest.fixture(scope="module")
def by_model(folder: Path, guessing: dict[str, Path]) -> dict[str, EngineCore]:
    return {
        name: eagerly(make_core(folder, draft=str(drafts))) for name, drafts in guessing.items()
    }


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(BRIEF)
def test_drafts_of_a_model_change_nothing(
    plain: EngineCore, by_model: dict[str, EngineCore], asked: list[StartAnswer]
) -> None:
    assert_same(told(by_model["itself"], asked), told(plain, asked))


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(BRIEFEST)
def test_nor_do_those_of_a_model_that_is_wrong(
    plain: EngineCore, by_model: dict[str, EngineCore], asked: list[StartAnswer]
) -> None:
    assert_same(told(by_model["another"], asked), told(plain, asked))


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(IN_FORM)
def test_nor_of_what_keeps_to_a_schema(
    plain: EngineCore, by_model: dict[str, EngineCore], asked: list[StartAnswer]
) -> None:
    without = told(plain, asked)
    for drafted in by_model.values():
        assert_same(told(drafted, asked), without)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_model_that_thinks_alike_draws_alike(folder: Path, temperature: float) -> None:
    """All that it guesses is right, also what is drawn: the noise is the same at the same place."""
    core = eagerly(make_core(folder, draft=str(folder)))
    question = ask(
        user("What is it?"), max_tokens=97, ignore_end=True, temperature=temperature, seed=5
    )
    assert passes(core, question) == 7  # the first token, then 16 a pass
    stats = core.stats()
    assert stats["accepted_tokens"] == stats["drafted_tokens"] == 90
    assert stats["draft_passes"] == 90


def test_the_caches_of_both_are_within_what_is_given_for_them(folder: Path) -> None:
    sizes: dict[str, object] = {
        "kv_cache_gigabytes": 0.001, "max_rows": 128, "max_context_tokens": 256
    }  # fmt: skip
    blocks = []
    for draft in ("off", str(folder)):
        runner = make_core(folder, draft=draft, **sizes)._runner
        assert isinstance(runner, PagedRunner)
        blocks.append(runner.cache.num_blocks - 1)  # but for the trash block
    assert blocks[1] == blocks[0] // 2


def test_what_was_found_in_the_cache_was_read_by_the_draft_model_too(folder: Path) -> None:
    core = eagerly(make_core(folder, draft=str(folder)))
    words = "what is in a red circle " * 10
    first = ask(user(words, "one"), max_tokens=20, ignore_end=True)
    told(core, [first])
    before = core.stats()["draft_tokens_read"]
    accepted = core.stats()["accepted_tokens"]
    told(core, [ask(user(words, "two"), answer="b", max_tokens=20, ignore_end=True)])
    assert core.stats()["draft_tokens_read"] - before < before / 2
    assert core.stats()["accepted_tokens"] == 2 * accepted  # it is right all the same


# --- by another model, and by what was said ------------------------------------------------------

# A pass that verifies costs next to nothing, one of the draft model a third of a step.
COSTS = PassCosts((1, 16), (1.0, 1.1), draft=PassCosts((1, 16), (0.3, 0.3)))


def by_both_with(folder: Path, drafts: Path) -> EngineCore:
    core = make_core(folder, draft=str(drafts))
    assert isinstance(core._runner, PagedRunner) and core._runner.drafter is not None
    core._runner.drafter.costs = COSTS
    return core


@pytest.fixture(scope="module")
def by_both(folder: Path, guessing: dict[str, Path]) -> dict[str, EngineCore]:
    return {name: by_both_with(folder, drafts) for name, drafts in guessing.items()}


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(QUESTIONS)
def test_drafts_of_both_change_nothing(
    plain: EngineCore, by_both: dict[str, EngineCore], asked: list[StartAnswer]
) -> None:
    without = told(plain, asked)
    for drafted in by_both.values():
        assert_same(told(drafted, asked), without)


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(IN_FORM)
def test_nor_of_a_schema_of_which_a_part_is_forced(
    plain: EngineCore, by_both: dict[str, EngineCore], asked: list[StartAnswer]
) -> None:
    without = told(plain, asked)
    for drafted in by_both.values():
        assert_same(told(drafted, asked), without)


@pytest.mark.parametrize("whose", ["itself", "another"])
def test_what_is_forced_is_not_asked_of_a_model(
    plain: EngineCore, by_both: dict[str, EngineCore], whose: str
) -> None:
    drafted = by_both[whose]
    question = ask(user("What?"), schema=json.dumps(FORM), max_tokens=200, temperature=1.0, seed=3)
    before = drafted.stats()
    few, many = passes(drafted, question), passes(plain, question)
    asked = drafted.stats()["draft_passes"] - before["draft_passes"]
    assert few <= many / 2
    assert asked <= many / 2


def test_what_repeats_itself_is_looked_up_where_the_model_is_wrong(
    folder: Path, plain: EngineCore, tmp_path: Path
) -> None:
    build_served_qwen3_vl(tmp_path, seed=7)
    core = by_both_with(folder, tmp_path)
    question = ask(user("What is it?"), max_tokens=200, ignore_end=True, frequency_penalty=-2.0)
    assert passes(core, question) <= passes(plain, question) / 3
    assert core.stats()["draft_passes"] <= 60


def test_what_is_looked_up_teaches_nothing_about_the_model(folder: Path, tmp_path: Path) -> None:
    """And the other way round: one that is right is asked as long as nothing repeats itself."""
    core = by_both_with(folder, folder)
    asked = [
        ask(
            user(f"What is it {n}?"),
            answer=f"a{n}",
            max_tokens=90,
            ignore_end=True,
            temperature=3.0,
            seed=n,
        )
        for n in range(4)
    ]
    few = sum(passes(core, question) for question in asked)
    assert few <= 4 * 90 / 4
    assert core.stats()["draft_passes"] >= 150


def test_a_draft_model_of_another_vocabulary_is_refused(folder: Path, tmp_path: Path) -> None:
    build_random_qwen3(tmp_path)
    with pytest.raises(CheckpointError, match="draft: expected"):
        make_core(folder, draft=str(tmp_path))
