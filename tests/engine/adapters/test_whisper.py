"""Adapters of Whisper: files and live turns as of checkpoints that they are merged into."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from transformers import WhisperForConditionalGeneration

from lookhear.engine.core.core import EngineCore
from lookhear.engine.messages import AdapterLoaded, LoadAdapter
from tests.engine.adapters.test_speech import file, live, text_of
from tests.engine.chat.asking import make_core, rest
from tools.random_checkpoints.adapters import build_random_adapter, merged
from tools.random_checkpoints.whisper import build_random_whisper

ONLY = {"decoder": "model.decoder", "encoder": "model.encoder", "both": "model"}


class Whisper:
    """A folder, adapters of its model, and folders that they are merged into."""

    def __init__(self, folder: Path) -> None:
        self.folder = build_random_whisper(folder / "model", width=32, heads=2, context=56)
        (self.folder / "lookhear.json").write_text('{"short_windows": true}')
        model = WhisperForConditionalGeneration.from_pretrained(self.folder)
        self.adapters: dict[str, Path] = {}
        self.merged: dict[str, Path] = {}
        for seed, (name, only) in enumerate(ONLY.items()):
            path = build_random_adapter(
                folder / name,
                model,
                seed=seed,
                targets=("q_proj", "k_proj", "v_proj", "out_proj", "fc1", "fc2"),
                size=0.8,
                only=only,
            )
            self.adapters[name] = path
            self.merged[name] = folder / f"{name} merged"
            shutil.copytree(self.folder, self.merged[name])
            merged(model, path).save_pretrained(self.merged[name])
            for other in ("generation_config.json", "config.json"):
                shutil.copy(self.folder / other, self.merged[name] / other)

    def core(self, **changes: object) -> EngineCore:
        core = make_core(self.folder, **changes)
        for name, path in self.adapters.items():
            core.submit(LoadAdapter("r", "m", name, str(path)))
            (event,) = core.step()
            assert isinstance(event, AdapterLoaded), event
        return core


@pytest.fixture(scope="module")
def whisper(tmp_path_factory: pytest.TempPathFactory) -> Whisper:
    return Whisper(tmp_path_factory.mktemp("whisper"))


@pytest.mark.parametrize("window", ["full", "short"])
def test_files_side_by_side_have_each_their_own(whisper: Whisper, window: str) -> None:
    """Each text is drawn once: one that random weights are sure of never comes."""
    expected: dict[str | None, str] = {}
    for name, folder in [(None, whisper.folder), *whisper.merged.items()]:
        core = make_core(folder, window=window)
        core.submit(replace(file("m", "f"), temperature=0.01))
        expected[name] = text_of(rest(core), "f")
    assert len(set(expected.values())) == len(expected)
    core = whisper.core(window=window)
    for name in expected:
        asked = file("m" if name is None else f"m:{name}", str(name))
        core.submit(replace(asked, temperature=0.01))
    events = rest(core)
    assert {name: text_of(events, str(name)) for name in expected} == expected


@pytest.fixture(scope="module")
def heard(whisper: Whisper) -> dict[str, str]:
    """Live, of each adapter: what the checkpoint writes that it is merged into."""
    return {
        name: live(make_core(folder, settle_seconds=0.0, window="short"), "m")
        for name, folder in whisper.merged.items()
    }


@pytest.mark.parametrize("settle", [0.0, None])
def test_a_live_turn_is_heard_by_its_own(
    whisper: Whisper, heard: dict[str, str], settle: float | None
) -> None:
    """Where nothing is settled by others either, the texts are the same; else there is one."""
    assert len(set(heard.values())) == len(heard)
    for name, text in heard.items():
        core = whisper.core(settle_seconds=settle, window="short")
        assert live(core, f"m:{name}") == text
