"""A whole engine on a random Voxtral Realtime: turns and files, alone and side by side, and for as
long as anybody speaks."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from lookhear.engine.checkpoints.loader import CheckpointError
from lookhear.engine.config import EngineConfig
from lookhear.engine.core.core import EngineCore
from lookhear.engine.families.build import build_core
from lookhear.engine.messages import (
    SAMPLE_RATE,
    AppendAudio,
    CancelTurn,
    EndTurn,
    Event,
    FileTranscribed,
    Message,
    StartTurn,
    TextCommitted,
    TurnCompleted,
    TurnFailed,
    TurnSettled,
)
from lookhear.engine.voxtral.model import VoxtralModel
from lookhear.engine.voxtral.sound import STEP
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
from tests.engine.voxtral.driving import a_runner, run, sound, text, whole
from tools.random_checkpoints.voxtral import DELAY, LEFT, build_random_voxtral


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("voxtral")
    build_random_voxtral(folder, seed=3)
    return folder


SCRIPTS = {
    "a": turn("a", 0, 4.0),
    "b": turn("b", 1, 6.0, piece=0.3, delay="low"),
    "c": turn("c", 2, 1.2, delay="minimal"),
    "f": file("f", 3, 35.0),
}


def make(folder: Path, **changes: object) -> EngineCore:
    return make_core(folder, max_segment_seconds=None, **changes)


def test_side_by_side_as_alone(folder: Path) -> None:
    """Also where a step is launched before the last one was read."""
    alone = {name: outcome(play(make(folder), script), name) for name, script in SCRIPTS.items()}
    assert all(texts[-1] for texts in alone.values())
    for changes in ({}, {"overlap": 1}, {"max_rows": 2}):
        core = make(folder, **changes)
        events = play(core, *SCRIPTS.values())
        assert outcome(events, "f") == alone["f"]
        for name in "abc":
            assert outcome(events, name)[-1] == alone[name][-1]
        stats = core.stats()
        assert stats["voxtral_memories"] == stats["voxtral_blocks"] == 0
        assert stats["evicted_blocks"] == 0


@pytest.mark.parametrize("piece", [0.02, 0.11, 1.7, 9.0])
def test_a_turn_is_the_whole_recording(folder: Path, piece: float) -> None:
    """However its audio comes, its text is what the model writes of all of it at once."""
    model = VoxtralModel.from_folder(folder)
    samples = noise(4, 5.0)
    events = play(make(folder), turn("a", 4, 5.0, piece=piece))
    (results,) = run(a_runner(model), [whole("w", samples)])
    (done,) = [event for event in events if isinstance(event, TurnCompleted)]
    assert done.num_tokens == len(text(results)) > 10


def test_text_comes_with_the_steps(folder: Path) -> None:
    """And costs no more for what was said before: no step is read twice."""
    core = make(folder)
    script = turn("a", 5, 8.0, piece=0.08)
    heard: list[int] = []
    for number, message in enumerate(script[:-1]):
        core.submit(message)
        heard += [number for event in drain(core) if isinstance(event, TextCommitted)]
    assert len(heard) > 30 and max(b - a for a, b in pairwise(heard)) < 20
    # The first word may come a delay after the first sound.
    assert heard[0] <= DELAY + 12
    stats = core.stats()
    # One step reads all in which the text is known.
    assert stats["voxtral_passes"] <= 8.0 / 0.08 - DELAY + 8
    core.submit(script[-1])
    assert any(isinstance(event, TurnCompleted) for event in drain(core))


def test_a_long_session_is_bounded(tmp_path: Path) -> None:
    """Ten times as long as any window: blocks behind it are free again, and its last minute writes
    what the model writes that never gave one back."""
    build_random_voxtral(tmp_path, seed=3)
    model, count = VoxtralModel.from_folder(tmp_path), 60 * SAMPLE_RATE
    samples = sound(8, count)
    core = make(tmp_path)
    core.submit(StartTurn("a", "t", wanted()))
    events, held = list[Event](), list[int]()
    for start in range(0, count, 4 * STEP):
        core.submit(AppendAudio("a", "t", samples[start : start + 4 * STEP], count))
        events += drain(core)
        held.append(core.stats()["voxtral_blocks"])
    assert max(held) <= 3 + 4  # of 21 steps and 27 places, which begin and end anywhere
    core.submit(EndTurn("a", "t"))
    events += drain(core)
    (done,) = [event for event in events if isinstance(event, TurnCompleted)]
    (results,) = run(a_runner(model, (300, 100)), [whole("w", samples)])
    assert done.num_tokens == len(text(results)) > 300
    assert core.stats()["voxtral_blocks"] == 0


def test_with_little_memory_everybody_goes_on(tmp_path: Path) -> None:
    """Those that hold the most forget sooner than the model would."""
    build_random_voxtral(
        tmp_path, seed=3, audio={"sliding_window": 400}, text={"sliding_window": 300}
    )
    core = make(tmp_path, kv_cache_gigabytes=0.001, max_rows=2)
    names = [f"s{i}" for i in range(6)]
    events = play(core, *(turn(name, i, 12.0) for i, name in enumerate(names)))
    assert all(outcome(events, name)[-1] for name in names)
    assert core.stats()["evicted_blocks"] > 10
    assert core.stats()["voxtral_blocks"] == 0


def test_silence_is_not_heard(folder: Path) -> None:
    """What no voice detector heard, but for half a second in front and a long pause behind."""
    core = make(folder)
    events = play(core, speech_between_silence("a", words=True))
    words = [w for e in events if isinstance(e, TextCommitted) for w in e.words or ()]
    assert words and any(word.end < 10.0 for word in words) and words[-1].end > 13.0
    for word in words:
        assert 3.4 <= word.start <= 10.9 or word.start >= 11.9
    joined = "".join(e.text for e in events if isinstance(e, TextCommitted))
    assert joined == outcome(events, "a")[-1]
    nobody: list[Message] = [
        StartTurn("b", "t", wanted()), AppendAudio("b", "t", noise(1, 8.0), 0), EndTurn("b", "t"),
    ]  # fmt: skip
    before = core.stats()["requests"]
    assert outcome(play(core, nobody), "b") == ("",)
    assert core.stats()["requests"] == before


def test_words_are_told_whole_and_timed(folder: Path) -> None:
    plain = outcome(play(make(folder), turn("a", 8, 8.0)), "a")
    events = play(make(folder), turn("a", 8, 8.0, words=True, logprobs=True))
    assert outcome(events, "a")[-1] == plain[-1]
    told = [event for event in events if isinstance(event, TextCommitted)]
    assert len(told) > 3
    for event in told:
        assert event.logprobs and "".join(one.token for one in event.logprobs) == event.text
    words = [word for event in told for word in event.words or ()]
    assert len(words) > 5
    starts = [word.start for word in words]
    assert starts == sorted(starts) and words[-1].end <= 8.0 + 1.0


def test_another_engine_goes_on(folder: Path) -> None:
    """From the state that an event brought: what was heard and is not written yet is heard again,
    as a recording that begins there."""
    core, script = make(folder), turn("a", 9, 8.0, piece=0.2)
    first = script[0]
    assert isinstance(first, StartTurn)
    core.submit(StartTurn("a", "t", first.settings, tells_state=True))
    events: list[Event] = []
    for message in script[1:26]:
        core.submit(message)
        events += drain(core)
    told = [e for e in events if isinstance(e, TextCommitted | TurnSettled) and e.state]
    state = told[-1].state
    assert state is not None and 0 < state.start <= 25 * 3200 - DELAY * STEP
    said = "".join(event.text for event in told if isinstance(event, TextCommitted))
    other = make(folder)
    other.submit(StartTurn("a", "t", first.settings, resume=replace(state, text=said)))
    samples = noise(9, 8.0)
    other.submit(AppendAudio("a", "t", samples[state.start :], len(samples)))
    other.submit(EndTurn("a", "t"))
    (done,) = [event for event in drain(other) if isinstance(event, TurnCompleted)]
    assert done.text.startswith(said) and len(done.text) > len(said) > 0
    assert done.duration == pytest.approx(8.0)
    (results,) = run(
        a_runner(VoxtralModel.from_folder(folder)), [whole("w", samples[state.start :])]
    )
    assert done.num_tokens - state.num_tokens == len(text(results))


def test_a_turn_that_is_given_up_leaves_nothing(folder: Path) -> None:
    core = make(folder, overlap=1)
    for message in turn("a", 1, 3.0)[:-1]:
        core.submit(message)
        core.step()
    assert core.stats()["voxtral_memories"] == 1
    core.submit(CancelTurn("a", "t"))
    drain(core)
    assert core.stats()["voxtral_memories"] == core.stats()["voxtral_blocks"] == 0
    assert outcome(play(core, SCRIPTS["a"]), "a") == outcome(play(make(folder), SCRIPTS["a"]), "a")


def test_a_file_is_heard_in_pieces(folder: Path) -> None:
    (done,) = [
        event
        for event in play(make(folder), file("f", 6, 50.0))
        if isinstance(event, FileTranscribed)
    ]
    assert done.duration == pytest.approx(50.0)
    # Of each piece's steps, with the silence around it.
    assert 50 / 0.08 + 2 * (LEFT + 40) <= done.num_audio_tokens <= 50 / 0.08 + 4 * (LEFT + 41)
    starts = [segment.start for segment in done.segments]
    assert starts == sorted(starts) and not done.words
    assert "".join(segment.text for segment in done.segments).strip() == done.text


def test_words_of_a_file(folder: Path) -> None:
    (done,) = [
        event
        for event in play(make(folder), file("f", 6, 10.0, words=True))
        if isinstance(event, FileTranscribed)
    ]
    assert done.words and all(0 <= word.start <= word.end for word in done.words)


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
    built = build_core(EngineConfig(model=str(folder), threads=1), lambda stage, share: None)
    assert built.card.architecture == "VoxtralRealtimeForConditionalGeneration"
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
    assert core.stats()["voxtral_blocks"] == 0


@pytest.mark.parametrize(("dtype", "half"), [(torch.bfloat16, False), (torch.float32, True)])
def test_fewer_bits_hear_much_the_same(tmp_path: Path, dtype: torch.dtype, half: bool) -> None:
    build_random_voxtral(
        tmp_path, audio={"hidden_size": 320, "intermediate_size": 640, "num_hidden_layers": 2}
    )
    samples = noise(4, 3.0)
    model = VoxtralModel.from_folder(tmp_path, dtype=dtype, half=half)
    assert model.dtype == dtype
    (rough,) = run(a_runner(model), [whole("w", samples)])
    (exact,) = run(a_runner(VoxtralModel.from_folder(tmp_path)), [whole("w", samples)])
    same = sum(a == b for a, b in zip(text(rough), text(exact), strict=False))
    assert len(text(rough)) > 5 and same > (0.9 if half else 0.2) * len(text(exact))


def change(folder: Path, changes: dict[str, Any], *path: str) -> None:
    file, *inner = path
    told = json.loads((folder / file).read_text())
    place = told
    for key in inner:
        place = place[key]
    place.update(changes)
    (folder / file).write_text(json.dumps(told))


@pytest.mark.parametrize(
    ("path", "changes", "named"),
    [
        (("tekken.json", "audio"), {"frame_rate": 25.0}, "frame_rate"),
        (("tekken.json", "audio"), {"transcription_format": "instruct"}, "transcription_format"),
        (("tekken.json", "audio"), {"transcription_delay_ms": 100}, "multiple of 80"),
        (("tekken.json", "audio"), {"streaming_n_left_pad_tokens": 0}, "n_left_pad_tokens"),
        (("tekken.json", "audio", "audio_encoding_config"), {"hop_length": 80}, "hop_length"),
        (("tekken.json",), {"special_tokens": []}, "expected a token <s>"),
        (("tekken.json",), {"audio": None}, "audio: expected an object"),
        (("processor_config.json", "feature_extractor"), {"n_fft": 512}, "n_fft"),
        (("processor_config.json", "feature_extractor"), {"global_log_mel_max": None}, "log_mel"),
    ],
)
def test_a_folder_that_lacks_something_is_named(
    tmp_path: Path, path: tuple[str, ...], changes: dict[str, Any], named: str
) -> None:
    build_random_voxtral(tmp_path)
    change(tmp_path, changes, *path)
    with pytest.raises(CheckpointError, match=named):
        make(tmp_path)


def test_a_folder_without_a_tokenizer(tmp_path: Path) -> None:
    build_random_voxtral(tmp_path)
    (tmp_path / "tekken.json").unlink()
    with pytest.raises(CheckpointError, match=r"expected a file tekken\.json"):
        make(tmp_path)
