"""The recordings that `lookhear demo` carries: for real models a person, for toys their own."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
import soundfile

from lookhear.commands.demo import (
    PERSON,
    SYNTHESISED,
    bundled_recording,
    demo_models,
    read_recording,
)
from lookhear.errors import SourceError
from lookhear.gateway.commands.arguments import engine_configs
from lookhear.gateway.commands.settings import read_settings


@pytest.mark.parametrize("name", [PERSON, SYNTHESISED])
def test_words_lie_in_the_sound_in_order(name: str) -> None:
    recording = read_recording(bundled_recording(name))
    samples, rate = soundfile.read(recording.audio)
    assert len(recording.words) == len(recording.text.split())
    assert all(start < end for start, end in recording.words)
    assert all(before[1] <= after[0] for before, after in pairwise(recording.words))
    assert recording.words[0][0] >= 0 and recording.words[-1][1] <= len(samples) / rate
    loud = abs(samples).mean()
    first, last = recording.words[0][0], recording.words[-1][1]
    assert abs(samples[: round(first * rate)]).mean() < loud / 2
    assert abs(samples[round(last * rate) :]).mean() < loud / 2


def test_what_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="not installed"):
        bundled_recording("nobody.opus")
    with pytest.raises(SourceError, match=r"no such file: .*talk\.wav"):
        read_recording(tmp_path / "talk.wav")
    (tmp_path / "talk.wav").touch()
    with pytest.raises(SourceError, match=r"no such file: .*talk\.json, which tells what is said"):
        read_recording(tmp_path / "talk.wav")
    (tmp_path / "talk.json").write_text('{"text": "", "words": []}')
    with pytest.raises(SourceError, match="no words"):
        read_recording(tmp_path / "talk.wav")


@pytest.mark.parametrize(
    ("usual", "ours"),
    [
        ("", ["auto", "demo-qwen3-vl"]),
        ("demo-whisper", ["auto", "demo-qwen3-vl"]),
        ("eye=demo-qwen3-vl", ["auto", "demo-qwen3-vl"]),  # by another name
        ("demo-qwen3-vl", ["auto"]),
        ('[demo-whisper,"demo-qwen3-vl"]', ["auto"]),
    ],
)
def test_no_model_is_served_twice(usual: str, ours: list[str]) -> None:
    assert list(demo_models(usual)) == ours
    argv = [word for model in ours for word in ("--model", model)]
    options = read_settings(argv, {"LOOKHEAR_MODEL": usual}).options
    names = [config.name for config in engine_configs(options)]
    assert len(set(names)) == len(names)
