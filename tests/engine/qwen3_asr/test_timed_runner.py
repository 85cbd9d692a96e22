"""A small random Qwen3-ASR with a small random aligner: when words are said does not depend on what
others do, and what is said does not depend on the aligner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from lookhear.engine.core.core import EngineCore
from lookhear.engine.messages import (
    CancelFile,
    CloseSession,
    Event,
    FileFailed,
    FileTranscribed,
    Message,
    StartTurn,
    TextCommitted,
    TranscribeFile,
    TurnCompleted,
    TurnFailed,
    Word,
)
from lookhear.engine.tokenizers.qwen import QwenTokenizer
from tests.engine.playing import (
    all_free,
    drain,
    file,
    make_core,
    noise,
    outcome,
    play,
    turn,
    wanted,
)
from tools.random_checkpoints.qwen3 import build_served_qwen3_asr

LETTERS = set("abcdefghijklmnopqrstuvwxyz .,-")
SECONDS = {"a": 4.0, "b": 2.2, "c": 3.5, "d": 2.0, "f": 7.0, "g": 0.3, "h": 3.0}


@pytest.fixture(scope="module")
def writer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random Qwen3-ASR that prefers letters to other bytes: it writes words, of a kind."""
    folder = tmp_path_factory.mktemp("writer")
    build_served_qwen3_asr(folder, seed=3)
    tokenizer = QwenTokenizer.from_folder(folder)
    tensors = load_file(folder / "model.safetensors")
    embedding = tensors["model.language_model.embed_tokens.weight"]
    for token in range(len(embedding)):
        spelt = tokenizer.decode_bytes([token]).decode("utf-8", "replace")
        if spelt and set(spelt) <= LETTERS:
            embedding[token] *= 4
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    return folder


def scripts() -> dict[str, list[Message]]:
    """Speakers and files; all but the last of each want the times of their words."""
    return {
        "a": turn("a", 1, 4.0, language="en", words=True),
        "b": turn("b", 2, 2.2, 0.7, language="de", words=True),
        "c": turn("c", 3, 3.5, 1.0, language="zh", words=True),
        "d": turn("d", 6, 2.0, language="en"),
        "f": file("f", 4, 7.0, language="en", words=True),
        "g": file("g", 5, 0.3, language="fr", words=True),
        "h": file("h", 7, 3.0, language="en"),
    }


def words_of(events: Sequence[Event], name: str) -> list[Word]:
    mine = [e for e in events if name in (getattr(e, "session", ""), getattr(e, "request", ""))]
    told = [e.words for e in mine if isinstance(e, TextCommitted | FileTranscribed)]
    return [word for words in told for word in words or ()]


def timed_core(asr: Path, aligner: Path, **changes: Any) -> EngineCore:
    return make_core(asr, aligner=str(aligner), **changes)


Told = dict[str, tuple[tuple[str, ...], list[Word]]]


@pytest.fixture(scope="module")
def alone(writer: Path, served_aligner: Path) -> Told:
    core = timed_core(writer, served_aligner)
    told: Told = {}
    for name, script in scripts().items():
        events = play(core, script)
        told[name] = outcome(events, name), words_of(events, name)
    return told


def assert_same(ours: Sequence[Word], theirs: Sequence[Word]) -> None:
    """But for the last digits of probabilities: sums have another order in another batch."""
    assert [(w.word, w.start, w.end) for w in ours] == [(w.word, w.start, w.end) for w in theirs]
    sure = [w.probability for w in theirs]
    assert [w.probability for w in ours] == pytest.approx(sure, abs=1e-4)


def letters(text: str) -> str:
    return "".join(filter(str.isalnum, text))


def test_times_rise_and_words_join_to_the_transcript(alone: Told) -> None:
    assert sum(len(words) for _, words in alone.values()) >= 8
    for name, (texts, words) in alone.items():
        if name in "dh":
            assert not words
            continue
        assert letters("".join(word.word for word in words)) == letters(texts[-1]), name
        assert all(0 <= word.start <= word.end <= SECONDS[name] for word in words)
        assert all(a.start <= b.start and a.end <= b.end for a, b in pairwise(words))
    assert len({word.start for word in alone["f"][1]}) > 1, "the words should differ"


def test_the_text_is_that_of_an_engine_without_an_aligner(writer: Path, alone: Told) -> None:
    core = make_core(writer)
    for name, (texts, _) in alone.items():
        script = [_without_words(message) for message in scripts()[name]]
        assert outcome(play(core, script), name) == texts


def _without_words(message: Message) -> Message:
    if not isinstance(message, StartTurn | TranscribeFile):
        return message
    return replace(message, settings=replace(message.settings, words=False))


@pytest.mark.parametrize(
    "changes",
    [{}, {"token_budget": 40, "max_rows": 3}, {"overlap": 1}, {"max_rows": 1}],
    ids=["roomy", "one text a step", "overlapping steps", "one row"],
)
def test_together_equals_alone(
    writer: Path, served_aligner: Path, alone: Told, changes: dict[str, Any]
) -> None:
    core = timed_core(writer, served_aligner, **changes)
    events = play(core, *scripts().values())
    for name in scripts():
        texts, words = alone[name]
        assert outcome(events, name) == texts
        assert_same(words_of(events, name), words)
    assert core.stats()["timed_texts"] > 8
    assert all_free(core) and not core.has_work


@pytest.mark.parametrize("overlap", [0, 1])
def test_an_end_at_any_step_frees_all_and_disturbs_nobody(
    writer: Path, served_aligner: Path, alone: Told, overlap: int
) -> None:
    core = timed_core(writer, served_aligner, overlap=overlap)
    ends = 0
    for steps in range(0, 40, 3):
        opened = turn("x", 8, 2.0, 2.0, language="en", words=True)[:2]
        for message in (*opened, *file("y", 9, 2.0, language="en", words=True), *scripts()["g"]):
            core.submit(message)
        events: list[Event] = []
        for _ in range(steps):
            events += core.step()
        ends += core.stats()["timed_texts"] > 0
        for end in (CloseSession("x"), CancelFile("y")):
            core.submit(end)
            core.check()
        events += drain(core)
        assert outcome(events, "g") == alone["g"][0]
        assert_same(words_of(events, "g"), alone["g"][1])
        assert all_free(core)
    assert 0 < ends


@pytest.mark.parametrize("language", ["ja", None])
def test_a_language_that_it_has_not_learnt_has_no_times(
    writer: Path, served_aligner: Path, language: str | None
) -> None:
    """Nor one that nobody knows: the random checkpoint names none."""
    core = timed_core(writer, served_aligner)
    done = play(core, file("f", 4, 4.0, language=language, words=True))[-1]
    assert isinstance(done, FileTranscribed) and done.text and not done.words
    assert core.stats()["timed_texts"] == 0


def test_cues_begin_and_end_with_their_words(writer: Path, served_aligner: Path) -> None:
    core = timed_core(writer, served_aligner)
    done = play(core, file("f", 4, 7.0, language="en", words=True))[-1]
    assert isinstance(done, FileTranscribed)
    for segment in done.segments:
        within = [w for w in done.words if segment.start <= w.start and w.end <= segment.end]
        assert within
    cues = TranscribeFile("f", wanted(language="en"), noise(4, 7.0), timestamps=True)
    timed = play(core, [cues])[-1]
    assert isinstance(timed, FileTranscribed) and timed.segments == done.segments


def test_times_that_are_not_finite_end_one_request_alone(
    writer: Path, served_aligner: Path, alone: Told
) -> None:
    core = timed_core(writer, served_aligner)
    runner: Any = core._runner
    embedding, encode = runner._model.decoder.weights.tokens, runner._aligner.tokenizer.encode
    read = {name: {t for w in alone[name][1] for t in encode(letters(w.word))} for name in "fg"}
    with torch.inference_mode():  # of what only the long one's text has
        embedding[list(read["f"] - read["g"])] = float("nan")
    events = play(core, *(scripts()[name] for name in "dfg"))
    failed = [e for e in events if isinstance(e, FileFailed | TurnFailed)]
    assert [e.code for e in failed] == ["model_error"]
    assert outcome(events, "g") == alone["g"][0] and outcome(events, "d") == alone["d"][0]
    assert all_free(core)


def test_without_an_aligner_words_are_refused(writer: Path) -> None:
    core = make_core(writer)
    for script in (turn("a", 1, 1.0, words=True), file("f", 4, 1.0, words=True)):
        failed = play(core, script)
        assert [type(e) for e in failed] in ([TurnFailed], [FileFailed])
        assert failed[0].code == "invalid_words"  # type: ignore[union-attr]
    assert not [e for e in play(core, turn("b", 1, 1.0)) if not isinstance(e, _TOLD)]


_TOLD = (TextCommitted, TurnCompleted)
