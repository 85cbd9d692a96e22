"""A model in two processes: what it answers is what it answers whole, token by token; each part
loads its own weights; and what goes wrong with a picture is its own question's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lookhear.engine.checkpoints.loader import CheckpointError
from lookhear.engine.config import EngineConfig
from lookhear.engine.core.core import EngineCore
from lookhear.engine.families.build import Built, build_core
from lookhear.engine.messages import (
    AdapterFailed,
    AdapterLoaded,
    AnswerCompleted,
    AnswerFailed,
    CancelAnswer,
    ChatMessage,
    CloseSession,
    EncodeMedium,
    EncodingFailed,
    Event,
    LoadAdapter,
    MediumEncoded,
    Part,
    ReadAhead,
    StartAnswer,
    TextPart,
    VideoPart,
)
from lookhear.engine.paged.blocks import BLOCK_TOKENS
from tests.engine.chat.asking import ask, hold, image, make_core, outcome, rest, text, user
from tests.engine.pooling.reading import start
from tools.random_checkpoints.adapters import build_random_adapter
from tools.random_checkpoints.qwen3 import EXPERTS
from tools.random_checkpoints.qwen3_vl import build_served_qwen3_vl
from tools.random_checkpoints.whisper import build_random_whisper

NEW = 10
FRAMES = [f"f{i}" for i in range(5)]
QUESTIONS: dict[str, list[ChatMessage]] = {
    "text": [user("Tell me a story")],
    "one image": [user(image("small"), "What is it?")],
    "several, one twice": [user(image("small"), "and", image("wide"), image("small"), "Which?")],
    "video": [user("See", VideoPart(FRAMES, [0.0, 0.5, 1.0, 1.5, 2.0]), "Which way?")],
    "camera": [user(VideoPart(FRAMES, [0.0, 0.5, 1.0, 1.5, 2.0], live=True), "And now?")],
    "all": [
        ChatMessage("system", [TextPart("Be brief.")]),
        user(image("wide"), "What?"),
        ChatMessage("assistant", [TextPart("A thing.")]),
        user(VideoPart(FRAMES, [0.0, 0.5, 1.0, 1.5, 2.0]), image("small"), "And now?"),
    ],
}


@pytest.fixture(scope="module", params=[{}, EXPERTS], ids=["dense", "experts"])
def folder(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    folder = tmp_path_factory.mktemp("vl")
    build_served_qwen3_vl(folder, seed=3, text=request.param)
    return folder


def built(folder: Path, role: str) -> Built:
    config = EngineConfig(
        model=str(folder), threads=1, served_name="m", dtype="float32", draft="off", role=role
    )
    return build_core(config, lambda stage, share: None)


class Apart:
    """A language engine and its encoder, and the wire between them. lost: what is not handed on."""

    def __init__(self, folder: Path, **changes: object) -> None:
        self.language: EngineCore = make_core(folder, role="language", draft="off", **changes)
        self.encoder: EngineCore = make_core(folder, role="encoder")
        self.asked: list[EncodeMedium] = []
        for core_session in ("s", "t"):
            show(self.language, core_session)

    def rest(self) -> list[Event]:
        """Steps of both until there is nothing to do."""
        events: list[Event] = []
        while self.language.has_work or self.encoder.has_work:
            for event in rest(self.language):
                if isinstance(event, EncodeMedium):
                    self.asked.append(event)
                    self.encoder.submit(event)
                else:
                    events.append(event)
            for event in rest(self.encoder):
                assert isinstance(event, MediumEncoded | EncodingFailed), event
                self.language.submit(event)
        return events

    def answers(self, *questions: StartAnswer) -> dict[str, Any]:
        for question in questions:
            self.language.submit(question)
        return told(self.rest(), questions)


def show(core: EngineCore, session: str) -> None:
    core.submit(hold("small", 1, session, height=20, width=24))
    core.submit(hold("wide", 2, session, height=24, width=70))
    for i, name in enumerate(FRAMES):
        core.submit(hold(name, 10 + i, session, height=24, width=32))


def told(events: list[Event], questions: tuple[StartAnswer, ...]) -> dict[str, Any]:
    found = {}
    for question in questions:
        done = outcome(events, question.answer)
        assert isinstance(done, AnswerCompleted), done
        found[question.answer] = text(events, question.answer), done.usage.prompt, done.usage.image
    return found


def asked(name: str, answer: str = "", **changes: Any) -> StartAnswer:
    return ask(*QUESTIONS[name], answer=answer or name, max_tokens=NEW, logprobs=5, **changes)


@pytest.mark.parametrize("budget", [17, 512])
def test_answers_are_those_of_the_whole_model(folder: Path, budget: int) -> None:
    """Also where prompts are read in pieces that end in a picture, side by side, and again."""
    whole = make_core(folder, draft="off")
    show(whole, "s")
    expected: dict[str, Any] = {}
    for name in QUESTIONS:
        whole.submit(question := asked(name))
        expected |= told(rest(whole), (question,))
    apart = Apart(folder, token_budget=budget)
    assert apart.answers(*map(asked, QUESTIONS)) == expected
    once = len(apart.asked)
    assert once == len({medium.digest for medium in apart.asked}) > 4
    again = apart.answers(*(asked(name, f"{name} again") for name in QUESTIONS))
    assert list(again.values()) == list(expected.values())
    assert len(apart.asked) == once, "what was encoded is kept"
    assert apart.language.stats()["media_tokens_encoded"] == 0
    assert apart.encoder.stats()["media_tokens_encoded"] > 0
    apart.language.submit(CloseSession("s"))
    assert apart.rest() == [] and apart.language.stats()["media_awaited"] == 0


def test_each_part_has_its_own_weights_and_no_other(folder: Path) -> None:
    whole, language, encoder = (built(folder, r).card for r in ("", "language", "encoder"))
    assert language.parameters + encoder.parameters == whole.parameters
    assert 0 < encoder.parameters < whole.parameters and encoder.abilities == []
    assert language.abilities == whole.abilities


def test_who_asks_for_no_picture_waits_for_nobody(folder: Path) -> None:
    apart = Apart(folder)
    apart.language.submit(asked("one image"))
    apart.language.submit(asked("text"))
    events = rest(apart.language)
    assert isinstance(outcome(events, "text"), AnswerCompleted)
    (medium,) = [e for e in events if isinstance(e, EncodeMedium)]
    assert not apart.language.has_work, "the process waits for its socket, and not in a loop"
    apart.encoder.submit(medium)
    (encoded,) = rest(apart.encoder)
    apart.language.submit(encoded)  # type: ignore[arg-type]
    assert isinstance(outcome(rest(apart.language), "one image"), AnswerCompleted)


def test_a_picture_that_fails_is_its_questions_alone(folder: Path) -> None:
    apart = Apart(folder)
    for name in ("one image", "several, one twice", "video"):
        apart.language.submit(asked(name))
    media = [e for e in rest(apart.language) if isinstance(e, EncodeMedium)]
    bad = media[0].digest
    apart.language.submit(EncodingFailed(bad, "server_error", "it burnt"))
    for medium in media[1:]:
        apart.encoder.submit(medium)
    events = rest(apart.language)
    for encoded in rest(apart.encoder):
        apart.language.submit(encoded)  # type: ignore[arg-type]
    events += rest(apart.language)
    for name in ("one image", "several, one twice"):
        failed = outcome(events, name)
        assert isinstance(failed, AnswerFailed)
        assert (failed.code, failed.message) == ("server_error", "it burnt")
    assert isinstance(outcome(events, "video"), AnswerCompleted)
    # It may be asked for again.
    assert apart.answers(asked("one image", "again"))["again"][0]


def test_rows_of_another_width_are_refused(folder: Path) -> None:
    apart = Apart(folder)
    apart.language.submit(asked("one image"))
    (medium,) = [e for e in rest(apart.language) if isinstance(e, EncodeMedium)]
    rows = np.zeros((medium.num_tokens, 5), np.float32)
    apart.language.submit(MediumEncoded(medium.digest, rows))
    failed = outcome(rest(apart.language), "one image")
    assert isinstance(failed, AnswerFailed) and "expected embeddings of width" in failed.message


def test_a_picture_that_is_not_finite_fails_in_the_encoder(folder: Path) -> None:
    encoder = make_core(folder, role="encoder")
    apart = Apart(folder)
    apart.language.submit(asked("several, one twice"))
    good, bad = [e for e in rest(apart.language) if isinstance(e, EncodeMedium)]
    wild = EncodeMedium(bad.digest, bad.num_tokens, np.full_like(bad.features, np.nan))
    for medium in (good, wild, good):
        encoder.submit(medium)
    found = {type(event): event for event in rest(encoder)}
    assert found.keys() == {MediumEncoded, EncodingFailed}
    failed = found[EncodingFailed]
    assert isinstance(failed, EncodingFailed) and failed.code == "model_error"
    encoder.submit(bad)  # what was wrong is not kept
    (encoded,) = rest(encoder)
    assert isinstance(encoded, MediumEncoded) and np.isfinite(encoded.rows).all()
    encoder.submit(bad)
    (again,) = rest(encoder)
    assert isinstance(again, MediumEncoded) and np.array_equal(again.rows, encoded.rows)
    assert encoder.stats()["encoder_cache_hits"] == 1


def test_who_is_gone_meanwhile_leaves_nothing(folder: Path) -> None:
    apart = Apart(folder)
    apart.language.submit(asked("one image"))
    apart.language.submit(asked("one image", "other", session="t"))
    media = [e for e in rest(apart.language) if isinstance(e, EncodeMedium)]
    assert len(media) == 1, "the same picture of two sessions is asked for once"
    apart.language.submit(CancelAnswer("s", "one image"))
    apart.encoder.submit(media[0])
    for encoded in rest(apart.encoder):
        apart.language.submit(encoded)  # type: ignore[arg-type]
    events = rest(apart.language)
    assert isinstance(outcome(events, "other"), AnswerCompleted)
    apart.language.submit(CloseSession("s"))
    apart.language.submit(CloseSession("t"))
    apart.rest()
    apart.language.check()
    assert apart.language.stats()["answers"] == apart.language.stats()["media_awaited"] == 0


def test_what_is_read_ahead_waits_for_its_pictures_too(folder: Path) -> None:
    apart = Apart(folder)
    apart.language.submit(ReadAhead("s", "m", [user(image("small"))]))
    apart.language.submit(ReadAhead("s", "m", [user(image("small"), image("wide"))]))
    assert apart.rest() == [] and len(apart.asked) == 2
    apart.language.submit(ask(user(image("small"), image("wide"), "Well?"), max_tokens=4))
    done = outcome(apart.rest())
    assert isinstance(done, AnswerCompleted)
    assert done.usage.cached > done.usage.image - BLOCK_TOKENS and len(apart.asked) == 2


def test_vectors_of_pictures_are_those_of_the_whole_model(folder: Path) -> None:
    whole, apart = make_core(folder, draft="off"), Apart(folder)
    parts: list[list[Part]] = [[image("small"), TextPart("what")], [image("wide")]]
    request = start([*parts, "a text"])
    show(whole, "p")
    show(apart.language, "p")
    whole.submit(request)
    apart.language.submit(request)
    ours: Any = sorted(apart.rest(), key=lambda e: e.index)
    theirs: Any = sorted(rest(whole), key=lambda e: e.index)
    assert len(ours) == 3
    for one, other in zip(ours, theirs, strict=True):
        assert np.abs(one.vectors - other.vectors).max() <= 1e-5


def test_an_encoder_answers_no_questions(folder: Path) -> None:
    encoder = make_core(folder, role="encoder")
    encoder.submit(asked("text"))
    failed = outcome(rest(encoder), "text")
    assert isinstance(failed, AnswerFailed) and "its encoder alone" in failed.message


@pytest.mark.parametrize("role", ["language", "encoder"])
def test_a_model_without_parts_says_so(tmp_path: Path, role: str) -> None:
    build_random_whisper(tmp_path, layers=2, width=32, heads=2, seed=3)
    with pytest.raises(CheckpointError) as told:
        built(tmp_path, role)
    assert str(told.value) == (
        "encoders: expected a model whose encoder can be apart (Qwen3-VL, Qwen3-VL-MoE), got a "
        "Whisper"
    )


def test_adapters_change_the_decoder_alone(tmp_path: Path) -> None:
    model = build_served_qwen3_vl(tmp_path / "base", seed=3)
    own = build_random_adapter(tmp_path / "own", model, seed=1, targets=["q_proj", "up_proj"])
    tower = build_random_adapter(tmp_path / "tower", model, seed=1, targets=["qkv", "linear_fc1"])
    whole, apart = make_core(tmp_path / "base", draft="off"), Apart(tmp_path / "base")
    show(whole, "s")
    for core in (whole, apart.language):
        core.submit(LoadAdapter("r", "m", "own", str(own)))
        (loaded,) = rest(core)
        assert isinstance(loaded, AdapterLoaded)
    question = asked("several, one twice", model="m:own")
    whole.submit(question)
    assert apart.answers(question) == told(rest(whole), (question,))
    plain = apart.answers(asked("several, one twice", "plain"))["plain"]
    assert plain != apart.answers(asked("several, one twice", "adapted", model="m:own"))["adapted"]
    apart.language.submit(LoadAdapter("r", "m", "tower", str(tower)))
    (refused,) = rest(apart.language)
    assert isinstance(refused, AdapterFailed) and "visual" in refused.message
