"""A tokenizer may have tokens that its model has not: who brings one is refused, nobody else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lookhear.engine.checkpoints.loader import CheckpointError
from lookhear.engine.core.core import EngineCore
from lookhear.engine.messages import AnswerCompleted, AnswerFailed
from tests.engine.chat.asking import ask, make_core, outcome, rest, text, user
from tests.engine.sampling.schemas import keeps_to
from tools.random_checkpoints.qwen3 import build_random_qwen3, write_qwen_tokenizer

TEMPLATE = """
{%- for message in messages -%}
  {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' -}}
{%- endfor -%}
{%- if odd -%} <|odd|> {%- endif -%}
"""


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> EngineCore:
    folder = tmp_path_factory.mktemp("odd")
    ids = write_qwen_tokenizer(folder, "<|odd|>")
    ends = [ids["<|im_end|>"], ids["<|endoftext|>"]]
    build_random_qwen3(folder, vocab_size=ids["<|odd|>"], eos_token_id=ends)
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    return make_core(folder)


def ending_with(folder: Path, *ends: int) -> EngineCore:
    build_random_qwen3(folder, vocab_size=max(write_qwen_tokenizer(folder).values()) + 1)
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": ends}))
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    return make_core(folder)


def test_an_end_that_the_model_has_not_ends_nothing(tmp_path: Path) -> None:
    known = write_qwen_tokenizer(tmp_path)["<|im_end|>"]
    core = ending_with(tmp_path, 99_999, known)
    core.submit(ask(user("What is it?"), logit_bias={str(known): 100.0}))
    done = outcome(rest(core))
    assert isinstance(done, AnswerCompleted) and done.reason == "stop"


def test_a_checkpoint_of_which_the_model_has_no_end_is_refused(tmp_path: Path) -> None:
    expected = r"eos_token_id: expected token ids, one at least below \d+, got \(99999,\)"
    with pytest.raises(CheckpointError, match=expected):
        ending_with(tmp_path, 99_999)


def test_who_brings_one_is_refused_alone(core: EngineCore) -> None:
    core.submit(ask(user("What is it?"), answer="odd", template={"odd": True}))
    core.submit(ask(user("What is it?"), answer="plain"))
    core.submit(ask(user("<|odd|>"), answer="spelt"))
    events = rest(core)
    refused = outcome(events, "odd")
    assert isinstance(refused, AnswerFailed) and refused.code == "invalid_value"
    assert "expected tokens that the model has" in refused.message
    assert isinstance(outcome(events, "plain"), AnswerCompleted)
    assert isinstance(outcome(events, "spelt"), AnswerCompleted)


def test_answers_keep_to_a_schema_without_them(core: EngineCore) -> None:
    core.submit(ask(user("What is it?"), max_tokens=64, schema='{"enum": ["a", "b"]}'))
    events = rest(core)
    assert isinstance(outcome(events), AnswerCompleted)
    assert keeps_to(text(events).strip('"'), {"enum": ["a", "b"]})
