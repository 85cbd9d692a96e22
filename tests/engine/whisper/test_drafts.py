"""Files whose text another Whisper guesses: the same, to the last word, in fewer passes."""

from __future__ import annotations

import shutil
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from lookhear.engine.checkpoints.hub import resolve_checkpoint
from lookhear.engine.checkpoints.loader import CheckpointError
from lookhear.engine.config import EngineConfig
from lookhear.engine.core.core import EngineCore
from lookhear.engine.families.build import build_core
from lookhear.engine.messages import FileTranscribed, TranscribeFile, TranscriptionSettings
from lookhear.engine.whisper.drafter import WhisperDrafter
from lookhear.engine.whisper.files.file import WhisperFile
from lookhear.engine.whisper.model import WhisperModel
from lookhear.engine.whisper.runner import WhisperRunner
from tests.engine.whisper.test_demo_files import recording
from tools.random_checkpoints.whisper import build_random_whisper


def make_core(draft: str = "off", *, measured: bool = False, **changes: Any) -> EngineCore:
    config = EngineConfig(model="demo-whisper", draft=draft, threads=1, dtype="float32", **changes)
    core = build_core(config, lambda stage, share: None).core
    if draft != "off":
        assert isinstance(core._runner, WhisperRunner)
        assert isinstance(core._runner.drafter, WhisperDrafter)
        if not measured:
            core._runner.drafter.costs = None  # as long as can be, whatever is measured here
    return core


@pytest.fixture(scope="module")
def worse(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The same checkpoint with its decoder out of tune."""
    folder = tmp_path_factory.mktemp("worse") / "model"
    shutil.copytree(resolve_checkpoint("demo-whisper"), folder)
    generator = torch.Generator().manual_seed(3)
    weights = load_file(folder / "model.safetensors")
    for name, weight in weights.items():
        if ".decoder.layers." in name and weight.dim() == 2:
            noise = torch.randn(weight.shape, generator=generator) * weight.float().std() * 0.3
            weights[name] = (weight.float() + noise).to(weight.dtype)
    save_file(weights, folder / "model.safetensors")
    return str(folder)


def heard(core: EngineCore, names: list[str], **settings: Any) -> list[FileTranscribed]:
    """One recording under several names at once, of other lengths."""
    samples, speech = recording(0.8)
    for number, name in enumerate(names):
        wanted = TranscriptionSettings(model="demo-whisper", **{"words": True, **settings})
        last = speech[-1 - number][1]
        spans = [span for span in speech if span[1] <= last]
        core.submit(TranscribeFile(name, wanted, samples[:last], speech=spans))
    done: dict[str, FileTranscribed] = {}
    while core.has_work:
        for event in core.step():
            if isinstance(event, FileTranscribed):
                done[event.request] = event
        core.check()
    return [done[name] for name in names]


@cache
def undrafted() -> tuple[str, int]:
    """The text of "a", and the passes that it takes."""
    core = make_core()
    [one] = heard(core, ["a"])
    return one.text, core.stats()["decoder_passes"]


@pytest.mark.parametrize(("window", "language"), [("full", None), ("short", "en")])
def test_the_text_is_the_same_whoever_guesses(
    worse: str, window: str, language: str | None
) -> None:
    settings: dict[str, Any] = {"language": language, "logprobs": True}
    plain = heard(make_core(window=window), ["a", "b"], **settings)
    assert all(one.text for one in plain)
    for draft in ("demo-whisper", worse):
        drafted = heard(make_core(draft, window=window), ["a", "b"], **settings)
        for one, other in zip(drafted, plain, strict=True):
            assert one.text == other.text
            assert [(s.start, s.end, s.text) for s in one.segments] == [
                (s.start, s.end, s.text) for s in other.segments
            ]
            assert [(w.word, w.start, w.end) for w in one.words] == [
                (w.word, w.start, w.end) for w in other.words
            ]


def test_texts_that_are_aligned_on_demand_have_the_same_times_whoever_guesses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(WhisperFile, "_wants_times", lambda self, tokens: True)
    [plain] = heard(make_core(), ["a"], words=False)
    core = make_core("demo-whisper")
    [drafted] = heard(core, ["a"], words=False)
    assert core.stats()["drafted_tokens"] > 0
    assert [(s.start, s.end, s.text) for s in drafted.segments] == [
        (s.start, s.end, s.text) for s in plain.segments
    ]


def test_it_takes_a_third_of_the_passes_where_guesses_are_right() -> None:
    (text, passes), drafted = undrafted(), make_core("demo-whisper")
    assert heard(drafted, ["a"])[0].text == text
    stats = drafted.stats()
    assert stats["decoder_passes"] < passes / 3
    assert stats["accepted_tokens"] > 0.9 * stats["drafted_tokens"] > 0
    assert stats["draft_passes"] > 0


def test_a_guesser_as_large_as_the_model_is_never_asked_where_it_does_not_pay() -> None:
    """What it saves is less than what it takes, whatever the clock has found."""
    core = make_core("demo-whisper", measured=True)
    assert isinstance(core._runner, WhisperRunner)
    drafter = core._runner.drafter
    assert isinstance(drafter, WhisperDrafter) and drafter.costs is not None
    assert drafter.costs.encode > 0.0 and drafter.costs.passes.draft is not None
    assert heard(core, ["a"])[0].text == undrafted()[0]


def test_what_cannot_be_measured_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: WhisperModel, hidden: torch.Tensor) -> torch.Tensor:
        return logits(self, hidden) * torch.nan

    logits = WhisperModel.logits
    monkeypatch.setattr(WhisperModel, "logits", broken)
    with pytest.raises(RuntimeError, match="not finite"):
        make_core("demo-whisper")


def test_sampled_text_and_expected_words_are_not_guessed() -> None:
    core = make_core("demo-whisper")
    heard(core, ["a"], keywords=["robin"])
    assert core.stats()["drafted_tokens"] == 0


def test_another_vocabulary_is_refused(tmp_path: Path) -> None:
    build_random_whisper(tmp_path / "other")
    with pytest.raises(CheckpointError, match="draft: expected"):
        make_core(str(tmp_path / "other"))
