"""Adapters of models that transcribe: the text is that of checkpoints they are merged into."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lookhear.engine.core.core import EngineCore
from lookhear.engine.messages import (
    SAMPLE_RATE,
    AdapterLoaded,
    AppendAudio,
    EndTurn,
    Event,
    FileFailed,
    FileTranscribed,
    LoadAdapter,
    StartTurn,
    TranscribeFile,
    TranscriptionSettings,
    TurnCompleted,
    TurnFailed,
)
from tests.engine.chat.asking import make_core, rest
from tools.random_checkpoints.adapters import build_random_adapter, merged
from tools.random_checkpoints.qwen3 import build_served_qwen3_asr

TARGETS = {
    "decoder": ("q_proj", "o_proj", "up_proj"),
    "tower": ("fc1", "out_proj", "conv_out", "linear_1", "linear_2"),
    "both": ("q_proj", "k_proj", "v_proj", "out_proj", "fc1", "fc2", "gate_proj", "down_proj"),
}


class Speech:
    """A folder, adapters of its model, and folders that they are merged into."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "model"
        model: Any = build_served_qwen3_asr(self.folder, seed=5)
        self.adapters: dict[str, Path] = {}
        self.merged: dict[str, Path] = {}
        for seed, (name, targets) in enumerate(TARGETS.items()):
            path = build_random_adapter(folder / name, model, seed=seed, targets=targets, size=0.6)
            self.adapters[name] = path
            self.merged[name] = folder / f"{name} merged"
            shutil.copytree(self.folder, self.merged[name])
            merged(model, path).save_pretrained(self.merged[name])

    def core(self) -> EngineCore:
        core = make_core(self.folder)
        for name, path in self.adapters.items():
            core.submit(LoadAdapter("r", "m", name, str(path)))
            (event,) = core.step()
            assert isinstance(event, AdapterLoaded), event
        return core


@pytest.fixture(scope="module")
def speech(tmp_path_factory: pytest.TempPathFactory) -> Speech:
    return Speech(tmp_path_factory.mktemp("speech"))


def sound(seconds: float) -> np.ndarray:
    loud = np.random.default_rng(7).normal(size=round(seconds * SAMPLE_RATE)) * 0.1
    return loud.astype(np.float32)


def file(model: str, request: str) -> TranscribeFile:
    settings = TranscriptionSettings(model, language="en")
    return TranscribeFile(request, settings, sound(5.0))


def text_of(events: list[Event], request: str) -> str:
    (event,) = [e for e in events if isinstance(e, FileTranscribed | FileFailed)
                and e.request == request]  # fmt: skip
    assert isinstance(event, FileTranscribed), event
    return event.text


def test_files_side_by_side_have_each_their_own(speech: Speech) -> None:
    expected: dict[str | None, str] = {}
    for name, folder in [(None, speech.folder), *speech.merged.items()]:
        core = make_core(folder)
        core.submit(file("m", "f"))
        expected[name] = text_of(rest(core), "f")
    assert len(set(expected.values())) == len(expected)
    core = speech.core()
    for _ in range(2):
        for name in expected:
            core.submit(file("m" if name is None else f"m:{name}", str(name)))
        events = rest(core)
        assert {name: text_of(events, str(name)) for name in expected} == expected


def live(core: EngineCore, model: str) -> str:
    core.submit(StartTurn("s", "t", TranscriptionSettings(model, language="en")))
    events: list[Event] = []
    samples = sound(5.0)
    for at in range(0, len(samples), SAMPLE_RATE):
        piece = samples[at : at + SAMPLE_RATE]
        core.submit(AppendAudio("s", "t", piece, at + len(piece)))
        events += rest(core)
    core.submit(EndTurn("s", "t"))
    events += rest(core)
    (done,) = [event for event in events if isinstance(event, TurnCompleted)]
    return done.text


def test_a_live_turn_keeps_the_one_that_it_began_with(speech: Speech) -> None:
    for name, folder in speech.merged.items():
        assert live(speech.core(), f"m:{name}") == live(make_core(folder), "m")


def test_one_that_is_not_there_is_refused(speech: Speech) -> None:
    core = speech.core()
    core.submit(StartTurn("s", "t", TranscriptionSettings("m:none")))
    core.submit(file("m:none", "f"))
    events = rest(core)
    assert [type(event) for event in events] == [TurnFailed, FileFailed]
    assert all("expected an adapter" in event.message for event in events)  # type: ignore[union-attr]
