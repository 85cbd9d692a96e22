"""Turns: the state machine on scripted probabilities, and the real model on sounds and speech."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st

from lookhear.media.voice.vad import (
    SileroModel,
    SpeechStarted,
    SpeechStopped,
    TurnDetector,
    VadConfig,
    VadEvent,
    VoiceDetector,
)

WINDOW = 512
DATA = Path(__file__).parents[1] / "data"
# In windows of 32 ms: start after 2, stop after 4 of silence, 3 of padding.
SCRIPT = VadConfig(prefix_padding_ms=96, silence_duration_ms=128, min_speech_ms=64)

probabilities = st.lists(st.sampled_from([0.0, 0.2, 0.4, 0.5, 0.9]), max_size=80)
configs = st.builds(
    VadConfig,
    threshold=st.sampled_from([0.3, 0.5, 0.8]),
    prefix_padding_ms=st.integers(0, 600),
    silence_duration_ms=st.integers(0, 400),
    min_speech_ms=st.integers(0, 100),
)


def play(detector: TurnDetector, script: list[float], start: int = 0) -> list[VadEvent]:
    """One probability a window, from window number `start`."""
    events = []
    for number, probability in enumerate(script, start):
        event = detector.push(probability, number * WINDOW, (number + 1) * WINDOW)
        if event is not None:
            events.append(event)
    return events


@cache
def model() -> SileroModel:
    return SileroModel()


@cache
def speech() -> tuple[np.ndarray, list[tuple[int, int]]]:
    samples, _ = soundfile.read(DATA / "speech.flac", dtype="float32")
    return samples, json.loads((DATA / "speech.json").read_text())["spans"]


# The state machine


def test_a_turn_with_padding_and_silence() -> None:
    detector = TurnDetector(SCRIPT)
    assert play(detector, [0.1] * 5) == []
    assert play(detector, [0.9], 5) == [] and not detector.speaking
    assert play(detector, [0.9], 6) == [SpeechStarted((5 - 3) * WINDOW)]
    assert detector.speaking and detector.voiced_until == 7 * WINDOW
    assert play(detector, [0.9, 0.1, 0.1, 0.1], 7) == []
    assert detector.speaking and detector.voiced_until == 8 * WINDOW
    assert play(detector, [0.1], 11) == [SpeechStopped(12 * WINDOW)]
    assert not detector.speaking and detector.voiced_until == 8 * WINDOW


def test_a_single_loud_window_is_no_speech() -> None:
    assert play(TurnDetector(SCRIPT), [0.1, 0.9, 0.1, 0.9, 0.1]) == []


def test_between_the_thresholds_nothing_starts_and_nothing_ends() -> None:
    detector = TurnDetector(SCRIPT)
    assert play(detector, [0.4] * 20) == []
    assert play(detector, [0.9, 0.4], 20) == [SpeechStarted(17 * WINDOW)]
    assert play(detector, [0.4] * 20, 22) == []
    assert detector.speaking and detector.voiced_until == 42 * WINDOW


def test_only_the_threshold_breaks_a_silence() -> None:
    detector = TurnDetector(SCRIPT)
    play(detector, [0.9, 0.9])
    assert play(detector, [0.1, 0.4, 0.4, 0.4], 2) == [SpeechStopped(6 * WINDOW)]
    detector = TurnDetector(SCRIPT)
    play(detector, [0.9, 0.9])
    assert play(detector, [0.1, 0.4, 0.5, 0.1, 0.1, 0.1], 2) == []
    assert play(detector, [0.1], 8) == [SpeechStopped(9 * WINDOW)]


def test_padding_stops_at_the_beginning_and_at_the_last_turn() -> None:
    detector = TurnDetector(SCRIPT)
    events = play(detector, [0.1, 0.9, 0.9, 0.1, 0.1, 0.1, 0.1, 0.1, 0.9, 0.9])
    assert events == [SpeechStarted(0), SpeechStopped(7 * WINDOW), SpeechStarted(7 * WINDOW)]


def test_silence_that_is_no_whole_number_of_windows() -> None:
    detector = TurnDetector(replace(SCRIPT, silence_duration_ms=100))
    events = play(detector, [0.9, 0.9, 0.1, 0.1, 0.1, 0.1])
    assert events[1] == SpeechStopped(2 * WINDOW + 1600)


def test_a_turn_ended_by_hand_begins_again_if_the_person_speaks_on() -> None:
    detector = TurnDetector(SCRIPT)
    play(detector, [0.9] * 4)
    detector.end_turn(4 * WINDOW)
    assert not detector.speaking
    assert play(detector, [0.9, 0.9], 4) == [SpeechStarted(4 * WINDOW)]


def test_new_settings_keep_the_turn() -> None:
    detector = TurnDetector(SCRIPT)
    play(detector, [0.9, 0.9, 0.1, 0.1])
    detector.config = replace(SCRIPT, silence_duration_ms=256)
    assert play(detector, [0.1] * 5, 4) == [] and detector.speaking
    detector.config = SCRIPT
    assert play(detector, [0.1], 9) == [SpeechStopped(6 * WINDOW)]


@given(script=probabilities, config=configs)
def test_turns_alternate_and_never_overlap(script: list[float], config: VadConfig) -> None:
    detector = TurnDetector(config)
    events: list[VadEvent] = []
    position = 0
    for number, probability in enumerate(script):
        position = (number + 1) * WINDOW
        event = detector.push(probability, number * WINDOW, position)
        if event is not None:
            assert 0 <= event.sample <= position
            events.append(event)
        assert 0 <= detector.voiced_until <= position
        if probability >= config.threshold:
            assert detector.voiced_until == position
    kinds = [type(event) for event in events]
    assert (
        kinds == [SpeechStarted, SpeechStopped] * (len(kinds) // 2) + kinds[len(kinds) // 2 * 2 :]
    )
    assert kinds[-1:] != [SpeechStarted] or detector.speaking
    samples = [event.sample for event in events]
    assert samples == sorted(samples)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("threshold", 1.5),
        ("threshold", -0.1),
        ("negative_threshold", 0.6),
        ("prefix_padding_ms", -1),
        ("silence_duration_ms", -1),
        ("min_speech_ms", -1),
    ],
)
def test_impossible_settings_name_the_field(field: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"^{field}: expected .* got {value}"):
        replace(VadConfig(), **{field: value})


@pytest.mark.parametrize(("threshold", "floor"), [(0.5, 0.35), (0.1, 0.01), (0.0, 0.0)])
def test_floor(threshold: float, floor: float) -> None:
    assert VadConfig(threshold=threshold).floor == pytest.approx(floor)
    assert VadConfig(threshold=threshold, negative_threshold=0.0).floor == 0.0


# The model


def test_turns_of_real_speech() -> None:
    samples, spans = speech()
    detector = VoiceDetector(model())
    events = detector.feed(samples)
    assert [type(event) for event in events] == [SpeechStarted, SpeechStopped] * len(spans)
    for (begin, end), started, stopped in zip(spans, events[::2], events[1::2], strict=True):
        padding, silence = 300 * 16, 500 * 16
        assert abs(started.sample + padding - begin) < 130 * 16
        assert -60 * 16 < stopped.sample - silence - end < 250 * 16
    assert not detector.speaking
    assert detector.voiced_until == events[-1].sample - 500 * 16
    assert detector.position == len(samples)


@pytest.mark.parametrize("decibels", [-30, -50, -70])
@pytest.mark.parametrize("noise", [0.0, 1e-6])
@pytest.mark.parametrize("offset", [0.0, 0.02, -0.2])
def test_a_quiet_voice_is_heard_as_a_loud_one(decibels: int, noise: float, offset: float) -> None:
    samples, spans = speech()
    quiet = samples * np.float32(10 ** (decibels / 20) / np.abs(samples).max())
    hiss = (noise * np.random.default_rng(0).standard_normal(len(samples))).astype(np.float32)
    events = VoiceDetector(model()).feed(quiet + hiss + np.float32(offset))
    assert [type(event) for event in events] == [SpeechStarted, SpeechStopped] * len(spans)
    marks = [event.sample for event in VoiceDetector(model()).feed(samples)]
    assert all(abs(e.sample - mark) <= 4 * WINDOW for e, mark in zip(events, marks, strict=True))


def test_a_quiet_voice_is_heard_once_a_loud_one_is_forgotten() -> None:
    samples, spans = speech()
    quiet = samples * np.float32(0.001 / np.abs(samples).max())
    pause = np.zeros(120 * 16000, np.float32)
    detector = VoiceDetector(model())
    loud = detector.feed(samples / np.abs(samples).max())
    assert len(loud) == 2 * len(spans)
    assert detector.feed(pause) == []
    assert len(detector.feed(quiet)) == 2 * len(spans)


def test_known_delays() -> None:
    """How late a turn is noticed, in audio time: the deciding window, from the true bounds."""
    samples, spans = speech()
    detector = VoiceDetector(model())
    begun: list[int] = []
    ended: list[int] = []
    for offset in range(0, len(samples), WINDOW):
        for event in detector.feed(samples[offset : offset + WINDOW]):
            (begun if isinstance(event, SpeechStarted) else ended).append(detector.position)
    assert max(at - begin for at, (begin, _) in zip(begun, spans, strict=True)) < 220 * 16
    assert max(at - end for at, (_, end) in zip(ended, spans, strict=True)) < 750 * 16


@cache
def one_turn() -> tuple[np.ndarray, list[VadEvent], int]:
    samples = speech()[0][9000:60000]
    detector = VoiceDetector(model())
    events = detector.feed(samples)
    assert [type(event) for event in events] == [SpeechStarted, SpeechStopped]
    return samples, events, detector.voiced_until


@settings(max_examples=15, deadline=None)
@given(sizes=st.lists(st.integers(0, 9000), min_size=1, max_size=30))
def test_events_do_not_depend_on_the_chunking(sizes: list[int]) -> None:
    samples, expected, voiced_until = one_turn()
    pieces = VoiceDetector(model())
    events: list[VadEvent] = []
    offset = number = 0
    while offset < len(samples):
        size = max(sizes[number % len(sizes)], 160)
        events += pieces.feed(samples[offset : offset + size])
        events += pieces.feed(samples[:0])
        offset, number = offset + size, number + 1
    assert events == expected
    assert (pieces.position, pieces.voiced_until) == (len(samples), voiced_until)


def sounds() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    t = np.arange(80000) / 16000
    return {
        "silence": np.zeros(80000),
        "dither": 1e-5 * rng.standard_normal(80000),
        "quiet noise": 0.001 * rng.standard_normal(80000),
        "loud noise": 0.1 * rng.standard_normal(80000),
        "hum": 0.3 * np.sin(2 * np.pi * 50 * t),
        "tone": 0.3 * np.sin(2 * np.pi * 440 * t),
        "offset": np.full(80000, 0.3),
        "clicks": 0.9 * (np.arange(80000) % 8000 == 0),
    }


@pytest.mark.parametrize("name", list(sounds()))
def test_other_sounds_are_no_speech(name: str) -> None:
    detector = VoiceDetector(model())
    assert detector.feed(sounds()[name].astype(np.float32)) == []
    assert detector.voiced_until == 0 and not detector.speaking


def test_speech_in_noise() -> None:
    samples, spans = speech()
    noise = 0.005 * np.random.default_rng(0).standard_normal(len(samples))
    events = VoiceDetector(model()).feed((samples + noise).astype(np.float32))
    assert len(events) == 2 * len(spans)


def test_reset_is_a_new_stream() -> None:
    samples, _ = speech()
    detector = VoiceDetector(model())
    first = detector.feed(samples[:70001])
    detector.reset()
    assert (detector.position, detector.voiced_until, detector.speaking) == (0, 0, False)
    assert detector.feed(samples[:70001]) == first


def test_commit_in_mid_speech() -> None:
    samples, spans = speech()
    detector = VoiceDetector(model())
    middle = sum(spans[0]) // 2
    detector.feed(samples[:middle])
    assert detector.speaking
    detector.end_turn()
    events = detector.feed(samples[middle:])
    assert events[0] == SpeechStarted(middle)


def test_media_loads_neither_torch_nor_sockets() -> None:
    code = (
        "import sys, lookhear.media.voice.vad, lookhear.media.audio.pcm;"
        "import lookhear.media.audio.decode;"
        "print([name for name in ('torch', 'silero_vad', 'websockets', 'starlette')"
        " if name in sys.modules])"
    )
    root = Path(__file__).parents[3]
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"
