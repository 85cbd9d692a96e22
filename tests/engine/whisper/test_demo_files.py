"""Recordings with pauses and noise through the engine, with the packaged checkpoint."""

from __future__ import annotations

import json
from functools import cache
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
    FileTranscribed,
    TranscribeFile,
    TranscriptionSettings,
)

DATA = Path(__file__).parents[2] / "data"
Samples = NDArray[np.float32]


@cache
def core(window: str) -> EngineCore:
    config = EngineConfig(model="demo-whisper", window=window, threads=1)
    return build_core(config, lambda stage, share: None).core


@cache
def utterances() -> list[Samples]:
    entries = json.loads((DATA / "manifest.json").read_text("utf-8"))
    some = [e for e in entries if e["language"] == "en" and e["seen_voice"]][:3]
    samples, rate = stretch(DATA / some[0]["file"], 0.0, some[-1]["end_s"])
    parts = [samples[int(e["start_s"] * rate) : int(e["end_s"] * rate)] for e in some]
    return [np.ascontiguousarray(part[:: rate // SAMPLE_RATE]) for part in parts]


def hear(
    samples: Samples, speech: list[tuple[int, int]] | None, window: str = "full"
) -> FileTranscribed:
    wanted = TranscriptionSettings(model="demo-whisper", language="en", words=True, logprobs=True)
    engine = core(window)
    engine.submit(TranscribeFile("f", wanted, samples, speech=speech))
    for _ in range(2000):
        for event in engine.step():
            assert isinstance(event, FileTranscribed), event
            engine.check()
            return event
    raise AssertionError("the recording never came to an end")


def recording(gap_s: float) -> tuple[Samples, list[tuple[int, int]]]:
    """The utterances with noise around them, and where they are."""
    rng = np.random.default_rng(0)
    parts: list[Samples] = []
    spans = []
    at = 0
    for one in utterances():
        noise = (0.001 * rng.normal(size=round(gap_s * SAMPLE_RATE))).astype(np.float32)
        spans.append((at + len(noise), at + len(noise) + len(one)))
        parts += [noise, one]
        at = spans[-1][1]
    return np.concatenate(parts), spans


@pytest.mark.parametrize("window", ["full", "short"])
def test_noise_between_utterances_costs_and_writes_nothing(window: str) -> None:
    near, near_spans = recording(1.0)
    far, far_spans = recording(20.0)
    close, apart = hear(near, near_spans, window), hear(far, far_spans, window)
    assert close.text and apart.text == close.text
    assert apart.duration == len(far) / SAMPLE_RATE
    for word in apart.words:
        assert any(
            a <= word.end * SAMPLE_RATE and word.start * SAMPLE_RATE <= b for a, b in far_spans
        )
    starts = [segment.start for segment in apart.segments]
    assert starts == sorted(starts) and starts[0] >= far_spans[0][0] / SAMPLE_RATE
    assert apart.segments[-1].end <= far_spans[-1][1] / SAMPLE_RATE


def test_where_nobody_speaks_no_model_is_asked() -> None:
    noise = np.random.default_rng(1).normal(size=90 * SAMPLE_RATE).astype(np.float32)
    before = core("full").stats()["requests"]
    done = hear(noise, [])
    assert (done.text, done.segments, done.words, done.logprobs) == ("", [], [], [])
    assert core("full").stats()["requests"] == before


def test_log_probabilities_join_to_the_text() -> None:
    done = hear(*recording(0.5))
    assert done.logprobs is not None
    assert b"".join(bytes(t.bytes) for t in done.logprobs).decode() == done.text


def test_the_first_word_of_a_sentence_begins_with_the_voice() -> None:
    samples, spans = recording(1.5)
    done = hear(samples, spans, "short")
    for begin, _ in spans:
        behind = [w.start for w in done.words if w.end > begin / SAMPLE_RATE]
        assert behind and behind[0] == pytest.approx(begin / SAMPLE_RATE, abs=0.3)
