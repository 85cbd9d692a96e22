"""Answers with drafts are those without, whatever is asked for, and take fewer passes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lookhear.engine.checkpoints.loader import CheckpointError
from lookhear.engine.core.core import EngineCore
from lookhear.engine.drafts.pace import PassCosts
from lookhear.engine.messages import AnswerCompleted, AnswerText, Event, StartAnswer
from lookhear.engine.paged.runner import PagedRunner
from tests.engine.chat.asking import (
    ask,
    build_wide,
    hold,
    image,
    make_core,
    outcome,
    rest,
    text,
    user,
)
from tests.engine.sampling.schemas import SCHEMAS
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


@pytest.fixture(scope="module", params=[0, 1], ids=["overlap 0", "overlap 1"])
def drafted(folder: Path, request: pytest.FixtureRequest) -> EngineCore:
    return make_core(folder, draft="ngram", overlap=request.param)


def told(core: EngineCore, questions: list[StartAnswer]) -> dict[str, Any]:
    """Of each answer: its text, why it ended, its usage but for the cache, its log probabilities
    and what else was likely."""
    core.submit(hold("p", 3))
    for question in questions:
        core.submit(question)
    events = rest(core)
    return {question.answer: _told(events, question.answer) for question in questions}


def _told(events: list[Event], answer: str) -> Any:
    done = outcome(events, answer)
    assert isinstance(done, AnswerCompleted), done
    chosen = [
        token
        for event in events
        if isinstance(event, AnswerText) and event.answer == answer
        for token in event.tokens or ()
    ]
    spelled = [(token.token, [other.token for other in token.top]) for token in chosen]
    usage = (done.usage.prompt, done.usage.output, done.usage.reasoning)
    logprobs = [token.logprob for token in chosen]
    return (text(events, answer), done.reason, done.stop_text, usage, spelled), logprobs


def assert_same(told: dict[str, Any], others: dict[str, Any]) -> None:
    assert told.keys() == others.keys()
    for answer, (said, logprobs) in told.items():
        assert said == others[answer][0]
        assert logprobs == pytest.approx(others[answer][1], abs=1e-4)


SAMPLINGS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "temperature": st.sampled_from([0.0, 0.0, 0.3, 1.0]),
        "seed": st.integers(0, 99),
        "max_tokens": st.integers(1, 90),
    },
    optional={
        "top_k": st.integers(1, 5),
        "top_p": st.sampled_from([0.1, 0.9]),
        "repetition_penalty": st.sampled_from([0.5, 1.4]),
        "frequency_penalty": st.sampled_from([-2.0, 2.0]),
        "logit_bias": st.just({str(token): -100.0 for token in range(0, 200, 3)}),
        "logprobs": st.integers(0, 3),
        "stop": st.just(["e"]),
        "ignore_end": st.just(True),
        "min_tokens": st.just(1),
    },
)
WORDS = st.lists(st.sampled_from(["red", "circle", "what", "is", "in a"]), max_size=30)


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(WORDS, st.booleans(), SAMPLINGS), min_size=1, max_size=5))
def test_drafts_change_nothing_of_an_answer(
    plain: EngineCore, drafted: EngineCore, questions: list[tuple[list[str], bool, dict[str, Any]]]
) -> None:
    asked = [
        ask(user(*([image("p")] if sees else []), " ".join(words)), answer=f"a{i}", **sampling)
        for i, (words, sees, sampling) in enumerate(questions)
    ]
    assert_same(told(drafted, asked), told(plain, asked))


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(SCHEMAS, st.sampled_from([0.0, 0.7]), st.integers(0, 99), st.sampled_from([None, 30, 900]))
def test_nor_of_one_that_keeps_to_a_schema(
    plain: EngineCore,
    drafted: EngineCore,
    schema: dict[str, Any],
    temperature: float,
    seed: int,
    most: int | None,
) -> None:
    sampling: dict[str, Any] = {"temperature": temperature, "seed": seed, "max_tokens": most}
    asked = [ask(user("What is it?"), schema=json.dumps(schema), logprobs=2, **sampling)]
    assert_same(told(drafted, asked), told(plain, asked))


def passes(core: EngineCore, *questions: StartAnswer) -> int:
    before = core.stats()["decoder_passes"]
    told(core, list(questions))
    return core.stats()["decoder_passes"] - before


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
    for budget in (17, 20, 23):
        small = make_core(folder, draft="ngram", token_budget=budget, max_rows=3)
        whole = make_core(folder, draft="off", max_rows=3)
        asked = [
            ask(user("What?" * n), answer=f"a{n}", max_tokens=20 + 7 * n, ignore_end=True)
            for n in range(1, 6)
        ]
        assert_same(told(small, asked), told(whole, asked))


def test_auto_measures_and_off_guesses_nothing(folder: Path, plain: EngineCore) -> None:
    auto = make_core(folder)
    assert auto.stats()["prompt_tokens_read"] == 0 and auto.stats()["cached_blocks"] == 0
    question = ask(user("What is it?"), max_tokens=200, ignore_end=True)
    assert_same(told(auto, [question]), told(plain, [question]))
    assert plain.stats()["drafted_tokens"] == 0


# --- by another model ----------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["itself", "another"])
def by_model(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> EngineCore:
    """A model that is always right, as it is the same one; and one that is hardly ever."""
    drafts = folder
    if request.param == "another":
        drafts = tmp_path_factory.mktemp("small")
        build_served_qwen3_vl(drafts, seed=7)
    core = make_core(folder, draft=str(drafts))
    assert isinstance(core._runner, PagedRunner) and core._runner.drafter is not None
    core._runner.drafter.costs = None  # as long as can be, whatever is measured here
    return core


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(WORDS, st.booleans(), SAMPLINGS), min_size=1, max_size=5))
def test_drafts_of_a_model_change_nothing(
    plain: EngineCore, by_model: EngineCore, questions: list[tuple[list[str], bool, dict[str, Any]]]
) -> None:
    asked = [
        ask(user(*([image("p")] if sees else []), " ".join(words)), answer=f"a{i}", **sampling)
        for i, (words, sees, sampling) in enumerate(questions)
    ]
    assert_same(told(by_model, asked), told(plain, asked))


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(SCHEMAS, st.sampled_from([0.0, 0.7]), st.integers(0, 99))
def test_nor_of_what_keeps_to_a_schema(
    plain: EngineCore, by_model: EngineCore, schema: dict[str, Any], temperature: float, seed: int
) -> None:
    fields: dict[str, Any] = {"temperature": temperature, "seed": seed, "max_tokens": 300}
    asked = [ask(user("What is it?"), schema=json.dumps(schema), **fields)]
    assert_same(told(by_model, asked), told(plain, asked))


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_model_that_thinks_alike_draws_alike(folder: Path, temperature: float) -> None:
    """All that it guesses is right, also what is drawn: the noise is the same at the same place."""
    core = make_core(folder, draft=str(folder))
    assert isinstance(core._runner, PagedRunner) and core._runner.drafter is not None
    core._runner.drafter.costs = None
    question = ask(
        user("What is it?"), max_tokens=97, ignore_end=True, temperature=temperature, seed=5
    )
    assert passes(core, question) == 7  # the first token, then 16 a pass
    stats = core.stats()
    assert stats["accepted_tokens"] == stats["drafted_tokens"] == 90
    assert stats["draft_passes"] == 90


def test_what_was_found_in_the_cache_was_read_by_the_draft_model_too(folder: Path) -> None:
    core = make_core(folder, draft=str(folder))
    assert isinstance(core._runner, PagedRunner) and core._runner.drafter is not None
    core._runner.drafter.costs = None
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


@pytest.fixture(scope="module", params=["itself", "another"])
def by_both(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> EngineCore:
    drafts = folder
    if request.param == "another":
        drafts = tmp_path_factory.mktemp("small")
        build_served_qwen3_vl(drafts, seed=7)
    return by_both_with(folder, drafts)


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(WORDS, st.booleans(), SAMPLINGS), min_size=1, max_size=5))
def test_drafts_of_both_change_nothing(
    plain: EngineCore, by_both: EngineCore, questions: list[tuple[list[str], bool, dict[str, Any]]]
) -> None:
    asked = [
        ask(user(*([image("p")] if sees else []), " ".join(words)), answer=f"a{i}", **sampling)
        for i, (words, sees, sampling) in enumerate(questions)
    ]
    assert_same(told(by_both, asked), told(plain, asked))


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(SCHEMAS, st.sampled_from([0.0, 0.7]), st.integers(0, 99))
def test_nor_of_a_schema_of_which_a_part_is_forced(
    plain: EngineCore, by_both: EngineCore, schema: dict[str, Any], temperature: float, seed: int
) -> None:
    fields: dict[str, Any] = {"temperature": temperature, "seed": seed, "max_tokens": 300}
    asked = [ask(user("What is it?"), schema=json.dumps(schema), **fields)]
    assert_same(told(by_both, asked), told(plain, asked))


def test_what_is_forced_is_not_asked_of_a_model(plain: EngineCore, by_both: EngineCore) -> None:
    question = ask(user("What?"), schema=json.dumps(FORM), max_tokens=200, temperature=1.0, seed=3)
    before = by_both.stats()
    few, many = passes(by_both, question), passes(plain, question)
    asked = by_both.stats()["draft_passes"] - before["draft_passes"]
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
