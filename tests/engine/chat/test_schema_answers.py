"""Answers that keep to a schema, of a model with random weights: it would say anything."""

from __future__ import annotations

import itertools
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lookhear.engine.core.core import EngineCore
from lookhear.engine.core.request import RequestError
from lookhear.engine.messages import (
    AnswerCall,
    AnswerCompleted,
    AnswerFailed,
    AnswerText,
    Event,
    Tool,
)
from lookhear.engine.sampling.grammar import GrammarMatcher
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
from tests.engine.sampling.schemas import SCHEMAS, Schema, keeps_to
from tools.random_checkpoints.qwen3 import END_TOKENS, build_random_qwen3, write_qwen_tokenizer

FORM = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 0, "maxLength": 6},
        "count": {"type": "integer", "minimum": 0, "maximum": 500},
        "kinds": {"type": "array", "items": {"enum": ["a", "b"]}, "minItems": 0, "maxItems": 3},
    },
    "required": ["name", "count"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wide(tmp_path_factory.mktemp("vl"))


@pytest.fixture(scope="module", params=[0, 1], ids=["overlap 0", "overlap 1"])
def core(folder: Path, request: pytest.FixtureRequest) -> EngineCore:
    return make_core(folder, overlap=request.param)


def asked(schema: Schema, answer: str = "a", **changes: Any) -> Any:
    fields = {"max_tokens": 1500, "schema": json.dumps(schema), **changes}
    return ask(user("What is it?"), answer=answer, **fields)


SAMPLINGS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"temperature": st.sampled_from([0.0, 0.5, 2.0]), "seed": st.integers(0, 99)},
    optional={
        "top_k": st.integers(1, 5),
        "top_p": st.sampled_from([0.0, 0.5]),
        "min_p": st.sampled_from([0.3, 1.0]),
        "repetition_penalty": st.sampled_from([0.5, 1.4]),
        "frequency_penalty": st.sampled_from([-2.0, 2.0]),
        "logit_bias": st.just({str(token): -100.0 for token in range(0, 200, 3)}),
        "logprobs": st.integers(0, 3),
    },
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(SCHEMAS, SAMPLINGS), min_size=1, max_size=3))
def test_whatever_the_weights_and_the_settings_the_answer_keeps_to_its_schema(
    core: EngineCore, questions: list[tuple[Schema, dict[str, Any]]]
) -> None:
    for i, (schema, sampling) in enumerate(questions):
        core.submit(asked(schema, f"a{i}", **sampling))
    events = rest(core)
    for i, (schema, _) in enumerate(questions):
        done = outcome(events, f"a{i}")
        assert isinstance(done, AnswerCompleted) and done.reason == "stop", done
        said = text(events, f"a{i}")
        assert keeps_to(json.loads(said), schema), said
        assert done.usage.reasoning == 0


def played(core: EngineCore, *questions: Any) -> dict[str, list[Event]]:
    """Events of each answer."""
    core.submit(hold("p", 3))
    for question in questions:
        core.submit(question)
    events = rest(core)
    names = [question.answer for question in questions]
    return {n: [e for e in events if getattr(e, "answer", "") == n] for n in names}


def plain(events: list[Event]) -> list[Any]:
    """Without what depends on who has asked before, and without log probabilities."""
    said = [(e.text, e.tokens) if isinstance(e, AnswerText) else (type(e), None) for e in events]
    return [
        (text, [(t.token, [other.token for other in t.top]) for t in tokens or ()])
        for text, tokens in said
    ]


def logprobs(events: list[Event]) -> list[float]:
    return [t.logprob for e in events if isinstance(e, AnswerText) for t in e.tokens or ()]


def test_company_and_overlap_change_nobodys_answer(folder: Path) -> None:
    """With and without schemas, drawn and greedy, long prompts and short ones."""
    questions = [
        asked(FORM, "form", temperature=1.0, seed=4, logprobs=2),
        asked(FORM, "strict", repetition_penalty=1.3),
        asked({"type": "string", "minLength": 3, "maxLength": 9}, "text", temperature=0.7, seed=1),
        ask(user(image("p"), "What is it?"), answer="free", max_tokens=60, logprobs=1),
        ask(user("And this?"), answer="warm", max_tokens=40, temperature=1.0, seed=8),
        ask(user("word " * 60), answer="long", max_tokens=30),
    ]
    alone: dict[str, list[Event]] = {}
    for question in questions:
        alone |= played(make_core(folder), question)
    for overlap in (0, 1):
        together = played(make_core(folder, overlap=overlap), *questions)
        for name, events in alone.items():
            assert plain(together[name]) == plain(events), name
            assert logprobs(together[name]) == pytest.approx(logprobs(events), abs=1e-4)


def test_log_probabilities_are_those_of_what_may_come(core: EngineCore) -> None:
    core.submit(asked({"enum": ["a", "b"]}, logprobs=4))
    events = rest(core)
    tokens = [t for e in events if isinstance(e, AnswerText) for t in e.tokens or []]
    assert "".join(token.token for token in tokens) == text(events)
    assert tokens[0].token == tokens[-1].token == '"'
    assert tokens[0].logprob == tokens[-1].logprob == 0.0  # there was no choice
    assert [len(token.top) for token in tokens] == [1, 2, 1]
    assert {token.token for token in tokens[1].top} == {"a", "b"}


def test_an_answer_that_is_too_long_is_cut_where_it_is(core: EngineCore) -> None:
    whole = played(core, asked(FORM, "w", seed=1, temperature=1.0))["w"]
    core.submit(asked(FORM, "cut", seed=1, temperature=1.0, max_tokens=9))
    events = rest(core)
    done = outcome(events, "cut")
    assert isinstance(done, AnswerCompleted)
    assert (done.reason, done.usage.output) == ("length", 9)
    said = text(events, "cut").rstrip("\ufffd")
    assert text(whole, "w").startswith(said) and said.startswith('{"name":')


def test_stop_texts_end_an_answer_as_ever(core: EngineCore) -> None:
    core.submit(asked(FORM, stop=['"count"']))
    events = rest(core)
    assert text(events).endswith(",") or text(events).endswith(", ")
    done = outcome(events)
    assert isinstance(done, AnswerCompleted) and done.reason == "stop"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"schema": '{"type": "strin"}'}, "schema: expected a schema that answers can keep to"),
        ({"min_tokens": 3}, "min_tokens: expected 0 with a schema, got 3"),
        ({"ignore_end": True}, "ignore_end: expected false with a schema"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_starts(
    core: EngineCore, changes: dict[str, Any], words: str
) -> None:
    core.submit(ask(user("What is it?"), **{"schema": json.dumps(FORM), **changes}))
    (failed,) = rest(core)
    assert isinstance(failed, AnswerFailed)
    assert failed.code == "invalid_value" and failed.message.startswith(words)


def test_a_schema_that_turns_out_too_much_work_fails_alone(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    core = make_core(folder)
    expected = text(played(core, ask(user("And this?"), answer="free"))["free"], "free")
    fill, calls = GrammarMatcher.fill, 0

    def failing(self: GrammarMatcher, bits: Any) -> None:
        nonlocal calls
        calls += 1
        if calls >= 4:
            raise RequestError("invalid_value", "schema: ParserTooComplex")
        fill(self, bits)

    monkeypatch.setattr(GrammarMatcher, "fill", failing)
    events = played(core, asked(FORM), ask(user("And this?"), answer="free"))
    assert text(events["free"], "free") == expected
    (failed,) = [e for e in events["a"] if isinstance(e, AnswerFailed)]
    assert failed.code == "invalid_value" and "ParserTooComplex" in failed.message
    core.check()


# --- thinking ------------------------------------------------------------------------------------

OPENED = "{{- '<|im_start|>assistant\\n<think>\\n' -}}"
TEMPLATE = """\
{%- for message in messages -%}
  {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' -}}
{%- endfor -%}
"""


@pytest.fixture(scope="module")
def thinker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Qwen3 whose vocabulary has the tags of thinking; its template has none."""
    folder = tmp_path_factory.mktemp("thinker")
    ids = write_qwen_tokenizer(folder, "<think>", "</think>")
    end_tokens = [ids["<|im_end|>"], ids["<|endoftext|>"]]
    build_random_qwen3(folder, vocab_size=max(ids.values()) + 1, eos_token_id=end_tokens)
    assert set(end_tokens).isdisjoint(END_TOKENS)
    return folder


def think_bias(folder: Path, **amounts: float) -> dict[str, float]:
    config = json.loads((folder / "tokenizer_config.json").read_text())
    ids = {e["content"]: key for key, e in config["added_tokens_decoder"].items()}
    tags = {"begin": "<think>", "end": "</think>"}
    return {ids[tags[name]]: amount for name, amount in amounts.items()}


def thought(events: list[Event]) -> str:
    return "".join(e.text for e in events if isinstance(e, AnswerText) and e.is_reasoning)


def test_a_model_may_think_first_unless_it_was_told_not_to(thinker: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(thinker, tmp_path / "both")
    (folder / "chat_template.jinja").write_text("{#- enable_thinking -#}" + TEMPLATE)
    core = make_core(folder)
    eager: dict[str, Any] = {"logit_bias": think_bias(thinker, begin=50, end=3), "temperature": 1.0}
    core.submit(asked(FORM, "first", max_tokens=400, **eager))
    core.submit(asked(FORM, "told", template={"enable_thinking": False}, **eager, max_tokens=400))
    events = rest(core)
    for name, thinks in (("first", True), ("told", False)):
        mine = [e for e in events if getattr(e, "answer", "") == name]
        assert isinstance(done := outcome(events, name), AnswerCompleted), done
        assert done.reason == "stop"
        assert bool(thought(mine)) == (done.usage.reasoning > 0) == thinks
        assert keeps_to(json.loads(text(events, name)), FORM)


def test_a_model_that_does_not_think_does_not_begin_with_it(thinker: Path) -> None:
    """Though its vocabulary has the tags, and of what may come first it likes them best."""
    core = make_core(thinker)
    eager = think_bias(thinker, begin=50)
    core.submit(asked(FORM, logit_bias=eager, temperature=1.0, max_tokens=400))
    events = rest(core)
    assert not thought(events) and keeps_to(json.loads(text(events)), FORM)


def test_a_choice_that_looks_like_thinking_is_said(thinker: Path) -> None:
    said = "<think>x</think>y"
    core = make_core(thinker)
    core.submit(ask(user("What is it?"), choices=[said], max_tokens=64))
    events = rest(core)
    assert (text(events), thought(events)) == (said, "")


def test_a_schema_begins_behind_the_thinking_that_a_template_opens(
    thinker: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(thinker, tmp_path / "opened")
    (folder / "chat_template.jinja").write_text(TEMPLATE + OPENED)
    core = make_core(folder)
    bias: dict[str, Any] = {"logit_bias": think_bias(folder, end=3), "temperature": 1.0}
    core.submit(asked(FORM, **bias, max_tokens=400))
    events = rest(core)
    assert thought(events) and keeps_to(json.loads(text(events)), FORM)
    core.submit(asked(FORM, "b", **bias, max_tokens=3))
    events = rest(core)
    assert isinstance(done := outcome(events, "b"), AnswerCompleted), done
    assert (text(events, "b"), done.reason, done.usage.output) == ("", "length", 3)


@pytest.mark.parametrize("opening", ["", OPENED], ids=["may think", "thinks"])
def test_log_probabilities_are_told_of_the_answer_alone(
    thinker: Path, tmp_path: Path, opening: str
) -> None:
    """Not of the tags of the thinking, nor of the line breaks around them."""
    folder = shutil.copytree(thinker, tmp_path / "told")
    template = "{#- enable_thinking -#}" + TEMPLATE + opening
    (folder / "chat_template.jinja").write_text(template)
    core = make_core(folder)
    bias: dict[str, Any] = {"logit_bias": think_bias(folder, begin=50, end=6), "temperature": 1.0}
    told = {"logprobs": 1, "max_tokens": 400}
    for seed in range(6):
        name = f"a{seed}"
        core.submit(asked({"enum": ["yes", "😀"]}, name, **bias, seed=seed, **told))
    events = rest(core)
    assert thought(events)
    for seed in range(6):
        mine = [e for e in events if isinstance(e, AnswerText) and e.answer == f"a{seed}"]
        tokens = [token for event in mine for token in event.tokens or ()]
        spelt = b"".join(bytes(token.bytes) for token in tokens).decode()
        assert spelt == text(events, f"a{seed}")


def test_log_probabilities_are_not_told_of_calls(core: EngineCore) -> None:
    """Nor of the end of one, or of the beginning of one that is cut off in its tag."""
    must: dict[str, Any] = {"tools": [Tool("look", "", json.dumps(FORM))], "must_call": True}
    for parallel, most in itertools.product([False, True], [2, 5, 9, 400]):
        name = f"{parallel} {most}"
        one = ask(
            user("What is it?"), answer=name, logprobs=1, temperature=1.0, seed=most,
            max_tokens=most, parallel_calls=parallel, **must,
        )  # fmt: skip
        core.submit(one)
    events = rest(core)
    assert any(isinstance(event, AnswerCall) for event in events)
    assert not [e for e in events if isinstance(e, AnswerText) and (e.text or e.tokens)]


def test_a_pattern_that_is_found_to_be_too_much_work_only_in_a_step(folder: Path) -> None:
    core = make_core(folder)
    for pattern in ("a{1000000}", "(a{400}){400}", "((a{50}b){50}c){50}"):
        core.submit(ask(user("What is it?"), pattern=pattern, max_tokens=3))
        (failed,) = [event for event in rest(core) if isinstance(event, AnswerFailed)]
        assert failed.code == "invalid_value"
        assert failed.message.startswith("pattern: expected one that is less work; ")
    core.submit(ask(user("What is it?"), pattern="(a{100}){100}", max_tokens=3))
    assert isinstance(done := outcome(rest(core)), AnswerCompleted), done
