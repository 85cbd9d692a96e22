"""A whole engine on a random transducer: turns and files, alone and side by side."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from lookhear.engine.config import EngineConfig
from lookhear.engine.core.core import EngineCore
from lookhear.engine.families.build import build_core
from lookhear.engine.messages import (
    AppendAudio,
    CancelTurn,
    EndTurn,
    Event,
    FileTranscribed,
    Message,
    StartTurn,
    TextCommitted,
    TextProvisional,
    TurnCompleted,
    TurnFailed,
    TurnSettled,
)
from lookhear.engine.transducer.model import TransducerModel
from tests.engine.playing import (
    drain,
    file,
    make_core,
    noise,
    outcome,
    play,
    speech_between_silence,
    turn,
    wanted,
)
from tests.engine.transducer.driving import a_runner, run, text, whole
from tools.random_checkpoints.transducer import build_random_transducer


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("transducer")
    build_random_transducer(folder, seed=0)
    return folder


SCRIPTS = {
    "a": turn("a", 0, 5.0),
    "b": turn("b", 1, 9.0, piece=0.3, delay="low"),
    "c": turn("c", 2, 1.2, delay="minimal"),
    "f": file("f", 3, 40.0),
}


def make(folder: Path, **changes: object) -> EngineCore:
    return make_core(folder, max_segment_seconds=None, **changes)


def test_side_by_side_as_alone(folder: Path) -> None:
    """Also where steps are launched before the last one was read."""
    alone = {name: outcome(play(make(folder), script), name) for name, script in SCRIPTS.items()}
    assert all(texts[-1] for texts in alone.values())
    for changes in ({}, {"overlap": 1}, {"max_rows": 2}):
        core = make(folder, **changes)
        events = play(core, *SCRIPTS.values())
        assert outcome(events, "f") == alone["f"]
        for name in "abc":
            assert outcome(events, name)[-1] == alone[name][-1]
        assert core.stats()["transducer_memories"] == 0


@pytest.mark.parametrize("piece", [0.02, 0.11, 1.7, 9.0])
def test_a_turn_is_the_whole_recording(folder: Path, piece: float) -> None:
    """However its audio comes, its text is what the model writes of all of it at once."""
    model = TransducerModel.from_folder(folder)
    samples = noise(4, 9.0)
    events = play(make(folder), turn("a", 4, 9.0, piece=piece))
    (results,) = run(a_runner(model), [whole("w", samples, 3)])
    (done,) = [event for event in events if isinstance(event, TurnCompleted)]
    assert done.num_tokens == len(text(results)) > 10


def test_text_comes_with_each_chunk(folder: Path) -> None:
    """And costs no more for what was said before: no sample is encoded twice."""
    core = make(folder)
    script = turn("a", 5, 20.0, piece=0.08)
    heard: list[tuple[int, int]] = []
    for number, message in enumerate(script[:-1]):
        core.submit(message)
        for event in drain(core):
            if isinstance(event, TextCommitted):
                heard.append((number, len(event.text)))
    places = [number for number, _ in heard]
    assert len(heard) > 20 and max(b - a for a, b in pairwise(places)) < 60
    stats = core.stats()
    assert stats["transducer_passes"] == stats["requests"] <= 20.0 / 0.32 + 2
    core.submit(script[-1])
    assert any(isinstance(event, TurnCompleted) for event in drain(core))


def test_silence_is_not_heard(folder: Path) -> None:
    """What no voice detector heard, but for half a second in front and a long pause behind."""
    core = make(folder)
    events = play(core, speech_between_silence("a", words=True))
    words = [w for e in events if isinstance(e, TextCommitted) for w in e.words or ()]
    assert words
    for word in words:
        assert 3.4 <= word.start <= 10.4 or word.start >= 12.4
    joined = "".join(e.text for e in events if isinstance(e, TextCommitted))
    assert joined == outcome(events, "a")[-1]
    nobody: list[Message] = [
        StartTurn("b", "t", wanted()), AppendAudio("b", "t", noise(1, 8.0), 0), EndTurn("b", "t"),
    ]  # fmt: skip
    before = core.stats()["requests"]
    assert outcome(play(core, nobody), "b") == ("",)
    assert core.stats()["requests"] == before


def test_words_are_told_whole_and_timed(folder: Path) -> None:
    plain = outcome(play(make(folder), turn("a", 8, 12.0)), "a")
    events = play(make(folder), turn("a", 8, 12.0, words=True, logprobs=True))
    assert outcome(events, "a")[-1] == plain[-1]
    told = [event for event in events if isinstance(event, TextCommitted)]
    assert len(told) > 3
    for event in told[1:]:
        assert event.text.startswith(" ")
    for event in told:
        assert event.logprobs and "".join(one.token for one in event.logprobs) == event.text
    words = [word for event in told for word in event.words or ()]
    assert [word.word for word in words] == plain[-1].split()
    starts = [word.start for word in words]
    assert starts == sorted(starts) and words[-1].end <= 12.1


def test_what_is_held_back_is_provisional(folder: Path) -> None:
    events = play(make(folder), turn("a", 8, 12.0, words=True, provisional=True))
    said, guesses = "", 0
    for event in events:
        if isinstance(event, TextCommitted):
            said += event.text
        if isinstance(event, TextProvisional) and event.text:
            guesses += 1
            assert outcome(events, "a")[-1].startswith((said + event.text).lstrip())
    assert guesses > 3


def test_another_engine_goes_on(folder: Path) -> None:
    """From the state that an event brought, with the audio from there on: as a recording that
    begins there."""
    core, script = make(folder), turn("a", 9, 12.0, piece=0.2)
    first = script[0]
    assert isinstance(first, StartTurn)
    core.submit(StartTurn("a", "t", first.settings, tells_state=True))
    events: list[Event] = []
    for message in script[1:40]:
        core.submit(message)
        events += drain(core)
    told = [e for e in events if isinstance(e, TextCommitted | TurnSettled) and e.state]
    state = told[-1].state
    assert state is not None and 0 < state.start <= 39 * 3200
    said = "".join(event.text for event in told if isinstance(event, TextCommitted))
    other = make(folder)
    other.submit(StartTurn("a", "t", first.settings, resume=replace(state, text=said)))
    samples = noise(9, 12.0)
    other.submit(AppendAudio("a", "t", samples[state.start :], len(samples)))
    other.submit(EndTurn("a", "t"))
    rest = drain(other)
    (done,) = [event for event in rest if isinstance(event, TurnCompleted)]
    assert done.text.startswith(said) and len(done.text) > len(said) > 0
    assert done.duration == pytest.approx(12.0)
    (results,) = run(
        a_runner(TransducerModel.from_folder(folder)), [whole("w", samples[state.start :], 3)]
    )
    assert done.num_tokens - state.num_tokens == len(text(results))


def test_a_turn_that_is_given_up_leaves_nothing(folder: Path) -> None:
    core = make(folder, overlap=1)
    for message in turn("a", 1, 3.0)[:-1]:
        core.submit(message)
        core.step()
    assert core.stats()["transducer_memories"] == 1
    core.submit(CancelTurn("a", "t"))
    drain(core)
    assert core.stats()["transducer_memories"] == 0
    assert outcome(play(core, SCRIPTS["a"]), "a") == outcome(play(make(folder), SCRIPTS["a"]), "a")


def test_a_file_is_heard_in_pieces(folder: Path) -> None:
    (done,) = [
        event
        for event in play(make(folder), file("f", 6, 70.0))
        if isinstance(event, FileTranscribed)
    ]
    assert done.duration == pytest.approx(70.0) and 860 < done.num_audio_tokens < 890
    starts = [segment.start for segment in done.segments]
    assert starts == sorted(starts) and done.segments[-1].end <= 70.1 and not done.words
    assert "".join(segment.text for segment in done.segments).strip() == done.text


def test_words_of_a_file(folder: Path) -> None:
    (done,) = [
        event
        for event in play(make(folder), file("f", 6, 20.0, words=True))
        if isinstance(event, FileTranscribed)
    ]
    assert [word.word for word in done.words] == done.text.split()
    assert all(0 <= word.start <= word.end <= 20.1 for word in done.words)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"task": "translate"}, "task"),
        ({"prompt": "earlier"}, "prompt"),
        ({"keywords": ("Moon",)}, "keywords"),
    ],
)
def test_what_it_cannot_do_is_refused_by_name(
    folder: Path, changes: dict[str, Any], field: str
) -> None:
    events = play(make(folder), turn("a", 0, 1.0, **changes))
    (failed,) = [event for event in events if isinstance(event, TurnFailed)]
    assert failed.message.startswith(f"{field}: expected")


def test_its_card(folder: Path) -> None:
    config = EngineConfig(model=str(folder), threads=1)
    built = build_core(config, lambda stage, share: None)
    assert built.card.architecture == "NemotronAsrStreamingForRNNT"
    assert built.card.abilities == ["transcribe"] and built.card.languages == []
    assert built.card.has_word_times


def test_numbers_that_are_none_end_one_turn(folder: Path) -> None:
    core = make(folder)
    script = turn("a", 0, 2.0)
    script[1] = AppendAudio("a", "t", np.full(8000, np.nan, np.float32), 8000)
    events = play(core, script, SCRIPTS["c"])
    (failed,) = [event for event in events if isinstance(event, TurnFailed)]
    assert failed.code == "model_error" and "finite" in failed.message
    assert outcome(events, "c")[-1] == outcome(play(make(folder), SCRIPTS["c"]), "c")[-1]


def test_half_precision_hears_much_the_same(folder: Path) -> None:
    """Encoded in bfloat16, written in float32."""
    model = TransducerModel.from_folder(folder, dtype=torch.bfloat16)
    assert model.dtype == torch.bfloat16 and model.predictor.weights.tokens.dtype == torch.float32
    samples = noise(4, 4.0)
    (rough,) = run(a_runner(model), [whole("w", samples, 3)])
    (exact,) = run(a_runner(TransducerModel.from_folder(folder)), [whole("w", samples, 3)])
    same = sum(a == b for a, b in zip(text(rough), text(exact), strict=False))
    assert len(text(rough)) > 5 and same > 0.3 * len(text(exact))


def test_weights_in_half_hear_the_same(tmp_path: Path) -> None:
    """Those of the encoder that are large enough; logits are as far apart as float16 rounds."""
    build_random_transducer(
        tmp_path, encoder={"hidden_size": 320, "intermediate_size": 640, "num_hidden_layers": 2}
    )
    plain = TransducerModel.from_folder(tmp_path)
    half = TransducerModel.from_folder(tmp_path, half=True)
    assert half.dtype == torch.float32 and half.num_parameters == plain.num_parameters
    layer = half.encoder.weights.layers[0]
    assert layer.first.up.half is not None and layer.attention.qkv.half is not None
    assert half.predictor.weights.head.half is None
    samples = noise(4, 6.0)
    texts = [text(run(a_runner(model), [whole("w", samples, 3)])[0]) for model in (plain, half)]
    same = sum(a == b for a, b in zip(*texts, strict=False))
    assert len(texts[0]) > 5 and same > 0.8 * len(texts[0])
