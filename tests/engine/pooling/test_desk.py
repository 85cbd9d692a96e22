"""Requests for vectors and scores that cannot be, that end early, and that stand beside others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lookhear.engine.chat.prompt import ChatPrompt
from lookhear.engine.messages import (
    AnswerFailed,
    CloseSession,
    FileFailed,
    Pooled,
    PoolingFailed,
    PoolingInput,
    StartTurn,
    TranscribeFile,
    TranscriptionSettings,
    TurnFailed,
)
from lookhear.engine.pooling import desk as desk_module
from lookhear.engine.pooling.prompt import PoolingPrompter
from tests.engine.chat.asking import ask, make_core, outcome, rest, user
from tests.engine.chat.asking import text as said
from tests.engine.pooling.reading import finish, pool, refusal, start, vectors
from tests.engine.pooling.reading import given as pooling_input
from tools.random_checkpoints.pooling import build_embedder, build_reranker


@pytest.fixture(scope="module")
def chatting(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that chats, makes vectors, and judges."""
    folder = tmp_path_factory.mktemp("chatting")
    build_reranker(folder, seed=3)
    return folder


@pytest.fixture(scope="module")
def embedding(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("embedding")
    build_embedder(folder, seed=3, ending=False)
    return folder


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "kind": ({"kind": "sum"}, "kind: expected one of vector, tokens, score"),
    "dimensions": ({"dimensions": 33}, "dimensions: expected 1 to 32, got 33"),
    "no queries": ({"kind": "score"}, "queries: expected 1, or 1 as of documents, got 0"),
    "queries": ({"queries": ["a", "b"]}, "queries: expected 1, or 1 as of documents, got 2"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_setting_that_cannot_be_is_named(chatting: Path, name: str) -> None:
    changes, message = WRONG[name]
    core = make_core(chatting)
    failed = refusal(core, "a text", **changes)
    assert (failed.code, failed.message, failed.index) == ("invalid_value", message, None)
    assert len(vectors(core, "a text")) == 1  # life goes on


def test_an_input_that_cannot_be_is_named(embedding: Path) -> None:
    core = make_core(embedding)
    long = "word " * 600
    failed = refusal(core, "fine", long)
    assert (failed.code, failed.side, failed.index) == ("context_length_exceeded", "document", 1)
    failed = refusal(core, "fine", queries=[long])
    assert (failed.code, failed.side, failed.index) == ("context_length_exceeded", "query", 0)
    failed = refusal(core, [1, 2, 100_000])
    assert failed.message.endswith("got 100000") and failed.code == "invalid_value"
    assert refusal(core, "").message == "expected a text, got an empty one"
    assert core.stats()["pooled_prompts"] == 0


def test_a_bug_with_an_input_fails_its_request_alone(
    embedding: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    core = make_core(embedding, max_rows=2)
    expected = vectors(core, "fine")
    embedded = PoolingPrompter.embedded

    def broken(self: PoolingPrompter, session: str, given: PoolingInput, *rest: Any) -> ChatPrompt:
        if given == wrong:
            raise IndexError("string index out of range")
        return embedded(self, session, given, *rest)

    monkeypatch.setattr(PoolingPrompter, "embedded", broken)
    wrong = pooling_input("wrong")
    # At once, and when its turn comes while others are under way.
    for documents in (["wrong", "fine"], [*["fine"] * 5, "wrong", "fine"]):
        core.submit(start(["fine"], session="q"))
        failed = refusal(core, *documents)
        assert (failed.code, failed.index) == ("server_error", documents.index("wrong"))
        assert failed.message == "the input could not be read: string index out of range"
        assert "IndexError" in caplog.text
        caplog.clear()
        core.submit(start(["fine"], session="r"))
        found = finish(core, "r")
        assert isinstance(found, list) and np.abs(found[0].vectors - expected).max() <= 1e-5
        core.submit(CloseSession("q"))
        core.check()


def test_a_request_that_ends_early_leaves_nothing(chatting: Path) -> None:
    core = make_core(chatting, max_rows=4, token_budget=16)
    core.submit(start(["some text to read " * 8] * 20))
    events = core.step()
    assert not any(isinstance(event, Pooled) for event in events)
    assert 0 < core.stats()["pooled_prompts"] <= 4  # and the other texts are no tokens yet
    core.submit(CloseSession("p"))
    assert not [event for event in rest(core) if isinstance(event, Pooled | PoolingFailed)]
    assert core.stats()["pooled_prompts"] == 0
    core.check()


def test_a_word_does_not_wait_for_somebodys_books(chatting: Path) -> None:
    core = make_core(chatting, token_budget=32)
    core.submit(start(["some text to read " * 16] * 40))
    for _ in range(3):
        core.step()
    core.submit(start(["a"], session="q"))
    read = [event.session for _ in range(2) for event in core.step() if isinstance(event, Pooled)]
    assert "q" in read
    found = finish(core, "p")
    assert isinstance(found, list) and found[-1].index == 39


def test_short_texts_are_read_as_many_at_once_as_there_are_rows(chatting: Path) -> None:
    core = make_core(chatting, max_rows=8, token_budget=32)
    core.submit(start(["a"] * 40))
    assert core.stats()["pooled_prompts"] == 8
    finish(core)


def test_what_others_begin_with_too_keeps_nobody_waiting(chatting: Path) -> None:
    """A judge's pairs begin with the same long query: read once, it is no work any more."""
    core = make_core(chatting, max_rows=16, token_budget=64)
    core.submit(start([f"a {n}" for n in range(60)], kind="score", queries=["some text " * 24]))
    at_once = [core.stats()["pooled_prompts"]]
    while core.has_work:
        core.step()
        at_once.append(core.stats()["pooled_prompts"])
    assert at_once[0] == 2 and max(at_once) >= 8


def test_what_waits_is_bounded(chatting: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desk_module, "MAX_WAITING", 30)
    core = make_core(chatting, max_rows=4)
    core.submit(start(["a text"] * 20))
    core.submit(start(["a text"] * 20, session="q"))
    failed = finish(core, "q")
    assert isinstance(failed, PoolingFailed) and failed.code == "too_many_inputs"


def test_answers_and_vectors_stand_beside_each_other(chatting: Path) -> None:
    alone = make_core(chatting)
    alone.submit(ask(user("Tell me"), max_tokens=12, ignore_end=True))
    answer = said(rest(alone))
    expected = vectors(make_core(chatting), "one", "two", "three")
    core = make_core(chatting)
    core.submit(ask(user("Tell me"), max_tokens=12, ignore_end=True))
    core.submit(start(["one", "two", "three"]))
    events = rest(core)
    assert said(events) == answer
    found = sorted((e for e in events if isinstance(e, Pooled)), key=lambda e: e.index)
    ours = np.concatenate([e.vectors for e in found])
    assert np.abs(ours - expected).max() <= 1e-5


def test_who_reads_only_says_so(embedding: Path, chatting: Path) -> None:
    core = make_core(embedding)
    core.submit(ask(user("Tell me")))
    assert isinstance(failed := outcome(rest(core)), AnswerFailed)
    assert failed.message == "model: expected one that chats, m makes vectors or scores"
    core.submit(StartTurn("s", "t", TranscriptionSettings("m")))
    file = TranscribeFile("f", TranscriptionSettings("m"), np.zeros(16, np.float32))
    core.submit(file)
    kinds = [type(event) for event in rest(core)]
    assert kinds == [TurnFailed, FileFailed]
    # A model that chats does not hear either.
    core = make_core(chatting)
    core.submit(file)
    assert [type(event) for event in rest(core)] == [FileFailed]


def test_one_session_is_one_request(chatting: Path) -> None:
    core = make_core(chatting)
    core.submit(start(["a"]))
    core.submit(start(["b"]))
    failed = finish(core)
    assert isinstance(failed, PoolingFailed) and failed.code == "duplicate_request"
    assert len(pool(core, "a", session="other")) == 1
