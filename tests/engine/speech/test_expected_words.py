"""Expected words through the engine, live and in files, whatever model hears: in a batch as alone,
and what was committed stays."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from lookhear.bench.recordings.dataset import stretch
from lookhear.engine.config import EngineConfig
from lookhear.engine.core.core import EngineCore
from lookhear.engine.families.build import build_core
from lookhear.engine.messages import (
    SAMPLE_RATE,
    AppendAudio,
    EndTurn,
    FileTranscribed,
    StartTurn,
    TextCommitted,
    TranscribeFile,
    TranscriptionSettings,
    TurnCompleted,
)
from lookhear.engine.sampling import expected as expected_words
from lookhear.engine.sampling.expected import Strength

DATA = Path(__file__).parents[2] / "data"
NAMES = ("The", "Sieben", "Quiet")
# So that words are heard that nobody said.
EAGER = Strength(behind=math.inf, sure=1.0, gain=12.0, doubt=0.0, most=8)


@pytest.fixture(scope="module", params=["demo-whisper", "demo-qwen3-asr"])
def core(request: pytest.FixtureRequest) -> EngineCore:
    config = EngineConfig(model=request.param, threads=1)
    return build_core(config, lambda stage, share: None).core


@pytest.fixture(scope="module")
def recordings() -> list[NDArray[np.float32]]:
    entries = json.loads((DATA / "manifest.json").read_text("utf-8"))
    some = [e for e in entries if e["language"] == "en" and e["seen_voice"]][:5]
    samples, rate = stretch(DATA / some[0]["file"], 0.0, some[-1]["end_s"])
    step = rate // SAMPLE_RATE
    return [
        np.ascontiguousarray(samples[int(e["start_s"] * rate) : int(e["end_s"] * rate)][::step])
        for e in some
    ]


def settings(core: EngineCore, keywords: tuple[str, ...]) -> TranscriptionSettings:
    return TranscriptionSettings(model="any", language="en", keywords=keywords)


def heard(core: EngineCore, files: dict[str, TranscribeFile]) -> dict[str, FileTranscribed]:
    """All at once, to their ends."""
    for message in files.values():
        core.submit(message)
    found: dict[str, FileTranscribed] = {}
    for _ in range(2000):
        for event in core.step():
            assert isinstance(event, FileTranscribed), event
            found[event.request] = event
        if len(found) == len(files):
            core.check()
            return found
    raise AssertionError("they never came to an end")


def test_expected_words_are_heard_in_a_batch_as_alone(
    monkeypatch: pytest.MonkeyPatch, core: EngineCore, recordings: list[NDArray[np.float32]]
) -> None:
    """Beside recordings of which nothing is expected."""
    monkeypatch.setattr(expected_words, "STRENGTH", EAGER)

    def ask(number: int, keywords: tuple[str, ...]) -> TranscribeFile:
        part = recordings[number]
        wanted = settings(core, keywords)
        # The second is asked about a language, too.
        wanted = replace(wanted, language=None if number == 1 else "en")
        return TranscribeFile(str(number), wanted, part, speech=[(0, len(part))])

    numbers = range(len(recordings))
    plain = heard(core, {str(n): ask(n, ()) for n in numbers})
    asked = {str(n): ask(n, NAMES if n < 3 else ()) for n in numbers}
    together = heard(core, asked)
    for number, message in asked.items():
        alone = heard(core, {number: message})[number]
        assert together[number].text == alone.text
        assert together[number].language == alone.language == "en"
    changed = [number for number in asked if together[number].text != plain[number].text]
    assert changed and set(changed) <= {"0", "1", "2"}
    assert any(name in together[number].text for number in changed for name in NAMES[1:])
    again = heard(core, {str(n): ask(n, ()) for n in numbers})
    assert [again[n].text for n in again] == [plain[n].text for n in again], "nothing is left"


def test_live_what_is_committed_stays(
    monkeypatch: pytest.MonkeyPatch, core: EngineCore, recordings: list[NDArray[np.float32]]
) -> None:
    monkeypatch.setattr(expected_words, "STRENGTH", EAGER)

    def said(samples: NDArray[np.float32], keywords: tuple[str, ...]) -> str:
        core.submit(StartTurn("s", "t", settings(core, keywords)))
        parts: list[str] = []
        at = 0
        for _ in range(5000):
            if at < len(samples) and not core.has_work:
                piece = samples[at : at + SAMPLE_RATE // 4]
                at += len(piece)
                core.submit(AppendAudio("s", "t", piece, at))
                if at == len(samples):
                    core.submit(EndTurn("s", "t"))
            for event in core.step():
                if isinstance(event, TextCommitted):
                    parts.append(event.text)
                elif isinstance(event, TurnCompleted):
                    assert "".join(parts) == event.text
                    core.check()
                    return event.text
        raise AssertionError("it never came to an end")

    texts = [said(samples, NAMES) for samples in recordings[:2]]
    assert texts != [said(samples, ()) for samples in recordings[:2]]
