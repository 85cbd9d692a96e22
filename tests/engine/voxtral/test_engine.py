"""A whole engine on a random Voxtral Realtime: turns and files, alone and side by side, and for as
long as anybody speaks."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from lookhear.engine.checkpoints.loader import CheckpointError
from lookhear.engine.core.core import EngineCore
from lookhear.engine.messages import (
    SAMPLE_RATE,
    AppendAudio,
    EndTurn,
    Event,
    FileTranscribed,
    StartTurn,
    TextCommitted,
    TurnCompleted,
)
from lookhear.engine.voxtral.model import VoxtralModel
from lookhear.engine.voxtral.sound import STEP
from tests.engine.playing import (
    drain,
    file,
    noise,
    outcome,
    play,
    turn,
    wanted,
)
from tests.engine.streaming_family import StreamingFamily, make
from tests.engine.voxtral.driving import a_runner, run, sound, text, whole
from tools.random_checkpoints.voxtral import DELAY, LEFT, build_random_voxtral


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("voxtral")
    build_random_voxtral(folder, seed=3)
    return folder


class TestVoxtralRealtime(StreamingFamily):
    """What every natively streaming family promises."""

    architecture = "VoxtralRealtimeForConditionalGeneration"
    scripts: ClassVar = {
        "a": turn("a", 0, 4.0),
        "b": turn("b", 1, 6.0, piece=0.3, delay="low"),
        "c": turn("c", 2, 1.2, delay="minimal"),
        "f": file("f", 3, 35.0),
    }
    kept = ("voxtral_memories", "voxtral_blocks")
    seconds = 5.0
    late = DELAY * STEP / SAMPLE_RATE
    between = (10.9, 11.9)

    def num_written(self, folder: Path, samples: NDArray[np.float32]) -> int:
        """See `StreamingFamily`."""
        (results,) = run(a_runner(VoxtralModel.from_folder(folder)), [whole("w", samples)])
        return len(text(results))

    def assert_nothing_is_kept(self, core: EngineCore) -> None:
        """Nor has anybody had to give up a place of the cache."""
        super().assert_nothing_is_kept(core)
        assert core.stats()["evicted_blocks"] == 0


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
