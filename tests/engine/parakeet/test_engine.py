"""A whole engine on a random Parakeet: files, and turns whose text comes at their pauses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from lookhear.engine.config import EngineConfig
from lookhear.engine.core.core import EngineCore
from lookhear.engine.core.request import Priority
from lookhear.engine.families.build import build_core
from lookhear.engine.messages import (
    SAMPLE_RATE,
    AppendAudio,
    EndTurn,
    FileTranscribed,
    Message,
    StartTurn,
    TextCommitted,
    TurnCompleted,
    TurnFailed,
)
from lookhear.engine.models.frames import frame_filters
from lookhear.engine.parakeet.model import ParakeetModel
from lookhear.engine.parakeet.sound import LEAST, PLACE_SAMPLES, WholeFeed, WholeSound
from lookhear.engine.transducer.runner import TransducerRunner
from tests.engine.parakeet.test_parity import MELS, whole
from tests.engine.playing import drain, file, make_core, noise, outcome, play, turn, wanted
from tests.engine.transducer.driving import run, text
from tools.random_checkpoints.parakeet import KINDS, build_random_parakeet


@pytest.fixture(scope="module", params=KINDS)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("parakeet")
    build_random_parakeet(folder, kind=request.param, seed=2)
    return folder


SCRIPTS = {
    "a": turn("a", 0, 5.0),
    "b": turn("b", 1, 7.0, piece=0.3),
    "c": turn("c", 2, 1.2),
    "f": file("f", 3, 35.0),
}


def make(folder: Path, **changes: object) -> EngineCore:
    return make_core(folder, max_segment_seconds=None, **changes)


def test_side_by_side_as_alone(folder: Path) -> None:
    alone = {name: outcome(play(make(folder), script), name) for name, script in SCRIPTS.items()}
    assert alone["f"][-1] and alone["b"][-1]
    for changes in ({}, {"overlap": 1}, {"max_rows": 2}):
        core = make(folder, **changes)
        events = play(core, *SCRIPTS.values())
        assert all(outcome(events, name) == alone[name] for name in SCRIPTS)
        assert core.stats()["transducer_memories"] == 0


@pytest.mark.parametrize("piece", [0.11, 9.0])
def test_a_turn_is_the_whole_recording(folder: Path, piece: float) -> None:
    model = ParakeetModel.from_folder(folder)
    runner = TransducerRunner(model, frame_filters(MELS, torch.float32, model.device))
    core = make(folder)
    events = play(core, turn("a", 4, 9.0, piece=piece))
    (results,) = run(runner, [whole("w", noise(4, 9.0))])
    (done,) = [event for event in events if isinstance(event, TurnCompleted)]
    assert done.num_tokens == len(text(results)) > 0 and core.stats()["requests"] == 1


def test_a_pause_is_enough(folder: Path) -> None:
    """What was said before it is told, without the end of the turn; silence is not heard."""
    core, samples = make(folder), noise(5, 12.0)
    core.submit(StartTurn("a", "t", wanted(words=True)))
    core.submit(AppendAudio("a", "t", samples[: 5 * SAMPLE_RATE], 4 * SAMPLE_RATE))
    told = [event for event in drain(core) if isinstance(event, TextCommitted)]
    assert told and all(word.end <= 5.1 for event in told for word in event.words or ())
    core.submit(AppendAudio("a", "t", samples[5 * SAMPLE_RATE : 9 * SAMPLE_RATE], 0))
    assert not drain(core)
    core.submit(AppendAudio("a", "t", samples[9 * SAMPLE_RATE :], 12 * SAMPLE_RATE))
    core.submit(EndTurn("a", "t"))
    events = drain(core)
    late = [w for e in events if isinstance(e, TextCommitted) for w in e.words or ()]
    assert late and all(word.start >= 8.4 for word in late)
    assert isinstance(events[-1], TurnCompleted)


def test_who_never_pauses_is_cut(folder: Path) -> None:
    core = make(folder)
    heard = []
    for message in turn("a", 6, 70.0):
        core.submit(message)
        heard += [event for event in drain(core) if isinstance(event, TextCommitted)]
    assert core.stats()["requests"] >= 3 and len(heard) >= 3
    assert core.stats()["transducer_memories"] == 0


def test_places_of_cut_pieces_go_on() -> None:
    feed = WholeFeed(WholeSound(0.97, 3 * SAMPLE_RATE))
    feed.append(noise(0, 2.0))
    assert feed.ready == 0 and feed.remaining == 25 and feed.is_short
    feed.append(noise(1, 2.0))
    count = feed.ready
    assert 0 < count <= 3 * SAMPLE_RATE // PLACE_SAMPLES and not feed.is_short
    first = feed.take("a", Priority.LIVE, count, is_last=False)
    last = feed.take("a", Priority.LIVE, feed.remaining, is_last=True)
    assert first.begin == 0 and last.begin == count == first.frames // 8
    assert first.frames + last.frames == 400
    assert feed.remaining == feed.ready == 0 and not len(feed.rest())
    feed.append(noise(2, 1.0)[: LEAST - 1])
    assert feed.remaining == 0


def test_what_comes_while_the_end_is_heard_begins_where_that_was() -> None:
    """Not at the next place: else all that follows would be timed too late."""
    feed, samples = WholeFeed(WholeSound(0.97, 3 * SAMPLE_RATE)), noise(0, 4.0)
    end = PLACE_SAMPLES * 20 + 77
    feed.append(samples[:end])
    assert feed.heard == 0
    feed.take("a", Priority.LIVE, feed.remaining, is_last=True)
    feed.append(samples[end:])
    assert feed.heard == feed.written == end
    assert np.array_equal(feed.rest(), samples[end:])


def test_a_file_and_its_words(folder: Path) -> None:
    (done,) = [
        event
        for event in play(make(folder), file("f", 6, 50.0, words=True))
        if isinstance(event, FileTranscribed)
    ]
    words = [word for word in done.text.split() if any(letter.isalnum() for letter in word)]
    assert [word.word for word in done.words] == words
    assert all(0 <= word.start <= word.end <= 50.1 for word in done.words)
    assert "".join(segment.text for segment in done.segments).strip() == done.text


@pytest.mark.parametrize(
    ("changes", "field"),
    [({"task": "translate"}, "task"), ({"keywords": ("Moon",)}, "keywords")],
)
def test_what_it_cannot_do_is_refused_by_name(
    folder: Path, changes: dict[str, Any], field: str
) -> None:
    events = play(make(folder), turn("a", 0, 1.0, **changes))
    (failed,) = [event for event in events if isinstance(event, TurnFailed)]
    assert failed.message.startswith(f"{field}: expected")


def test_numbers_that_are_none_end_one_turn(folder: Path) -> None:
    core, script = make(folder), list[Message](turn("a", 0, 2.0))
    script[1] = AppendAudio("a", "t", np.full(8000, np.nan, np.float32), 8000)
    events = play(core, script, SCRIPTS["b"])
    (failed,) = [event for event in events if isinstance(event, TurnFailed)]
    assert failed.code == "model_error" and "finite" in failed.message
    assert outcome(events, "b") == outcome(play(make(folder), SCRIPTS["b"]), "b")


def test_its_card(folder: Path) -> None:
    built = build_core(EngineConfig(model=str(folder), threads=1), lambda stage, share: None)
    assert built.card.architecture.startswith("ParakeetFor") and built.card.has_word_times
    assert built.card.abilities == ["transcribe"]
