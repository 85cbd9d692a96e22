"""Special tokens are told by their names, though no text has them."""

from __future__ import annotations

from pathlib import Path

import pytest

from lookhear.engine.core.core import EngineCore
from lookhear.engine.messages import AnswerStarted, AnswerText
from lookhear.engine.tokenizers.qwen import QwenTokenizer
from tests.engine.chat.asking import ask, make_core, rest, text, user
from tools.random_checkpoints.qwen3_vl import build_served_qwen3_vl


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("vl")
    build_served_qwen3_vl(folder)
    return folder


@pytest.fixture
def core(folder: Path) -> EngineCore:
    return make_core(folder)


def test_the_tokens_of_a_prompt_are_what_was_written(core: EngineCore) -> None:
    written = "<|im_start|>user\nhé<|im_end|>\n"
    core.submit(ask(user(written), is_plain=True, prompt_logprobs=1))
    started = rest(core)[0]
    assert isinstance(started, AnswerStarted) and started.tokens is not None
    told = started.tokens
    assert b"".join(told.pieces[token] for token in told.tokens).decode() == written


def test_those_of_an_answer_have_names_and_no_bytes(core: EngineCore, folder: Path) -> None:
    token = QwenTokenizer.from_folder(folder).token
    best = {str(token("<|im_end|>")): 100.0, str(token("<|im_start|>")): 70.0}
    core.submit(ask(user("Hi"), logprobs=2, logit_bias=best, ignore_end=True, max_tokens=2))
    events = rest(core)
    tokens = [t for e in events if isinstance(e, AnswerText) for t in e.tokens or []]
    assert [(t.token, t.bytes) for t in tokens] == [("<|im_end|>", [])] * 2
    assert [[top.token for top in t.top] for t in tokens] == [["<|im_end|>", "<|im_start|>"]] * 2
    assert text(events) == ""
