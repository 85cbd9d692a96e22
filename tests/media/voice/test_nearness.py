"""A voice in the background begins and continues no turn, where that is wanted."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st

from lookhear.media.voice.nearness import (
    FADING,
    HELD,
    LEAST,
    QUIET,
    SMOOTH,
    NearGate,
    Nearness,
)
from lookhear.media.voice.silero import WINDOW, SileroModel
from lookhear.media.voice.vad import SpeechStarted, SpeechStopped, VadConfig, VoiceDetector

DATA = Path(__file__).parents[1] / "data"
NEAR = VadConfig(near_field=True)
energies = st.lists(st.floats(1e-6, 1e2), min_size=1, max_size=60)


def heard(nearness: Nearness, energy: float, windows: int, *, is_voice: bool = True) -> list[bool]:
    return [nearness.is_near(energy, is_voice=is_voice) for _ in range(windows)]


def test_who_is_far_quieter_is_not_near_after_a_syllable_and_a_gap() -> None:
    nearness = Nearness()
    assert all(heard(nearness, 1.0, 10))
    far = heard(nearness, 0.5 * LEAST, 40)
    until = far.index(False)
    assert HELD <= until < HELD + SMOOTH and not any(far[until:])
    assert heard(nearness, 1.0, 1) == [True]  # at once


def test_who_is_not_so_much_quieter_is_near() -> None:
    nearness = Nearness()
    heard(nearness, 1.0, 10)
    assert all(heard(nearness, 1.1 * LEAST, 40))


def test_a_noise_makes_nobody_far() -> None:
    nearness = Nearness()
    heard(nearness, 1.0, 10)
    heard(nearness, 1e4, 10, is_voice=False)
    assert all(heard(nearness, 1.0, 40))


def test_who_was_near_is_forgotten_in_speech_but_in_no_pause() -> None:
    nearness = Nearness()
    heard(nearness, 1.0, 10)
    heard(nearness, 0.0, 100_000, is_voice=False)
    quiet = 0.5 * LEAST
    far = heard(nearness, quiet, 20)[-1]
    windows = int(np.log(0.5) / np.log(FADING))
    assert not far and not any(heard(nearness, quiet, windows - 40))
    assert heard(nearness, quiet, 60)[-1]


@given(energies, st.floats(1e-3, 1e3), st.data())
def test_how_loud_all_is_does_not_matter(
    given: list[float], gain: float, data: st.DataObject
) -> None:
    voices = data.draw(st.lists(st.booleans(), min_size=len(given), max_size=len(given)))
    one, other = Nearness(), Nearness()
    for energy, is_voice in zip(given, voices, strict=True):
        exact = one.is_near(energy, is_voice=is_voice)
        # A power of two, so that nothing is rounded.
        assert other.is_near(energy * 2.0 ** round(np.log2(gain)), is_voice=is_voice) == exact


def gated(far: list[bool], sizes: list[int]) -> np.ndarray:
    """The gain of each sample, told of in pieces of these sizes."""
    gate, position, gains = NearGate(), 0, []
    for size in sizes:
        for is_far in far[position // WINDOW : (position + size) // WINDOW]:
            gate.judged(is_far=is_far)
        gains.append(gate.quieten(np.ones(size, np.float32), position))
        position += size
    return np.concatenate(gains)


@given(st.lists(st.booleans(), min_size=1, max_size=30), st.data())
def test_the_gate_is_shut_behind_who_is_far_and_pieces_do_not_matter(
    far: list[bool], data: st.DataObject
) -> None:
    sizes, left = [], len(far) * WINDOW
    while left:
        sizes.append(data.draw(st.integers(1, min(left, WINDOW))))
        left -= sizes[-1]
    gains = gated(far, sizes)
    assert np.array_equal(gains, gated(far, [WINDOW] * len(far)))
    assert gains.min() >= QUIET * 0.999 and gains.max() <= 1.0
    before = [False, False, *far]  # two windows before each
    for window, pair in enumerate(zip(before, before[1:], strict=False)):
        if window < len(far) and pair[0] == pair[1]:
            inside = gains[window * WINDOW : (window + 1) * WINDOW]
            assert np.allclose(inside, QUIET if pair[0] else 1.0)


@pytest.fixture(scope="module")
def model() -> SileroModel:
    return SileroModel()


def beside_another(decibels: float) -> tuple[np.ndarray, list[tuple[int, int]]]:
    """Two sentences, and somebody who speaks on and on at so much less."""
    samples, _ = soundfile.read(DATA / "speech.flac", dtype="float32")
    spans = json.loads((DATA / "speech.json").read_text())["spans"]
    spoken = np.concatenate([samples[begin:end] for begin, end in reversed(spans)])
    return samples + np.resize(spoken, len(samples)) * np.float32(10 ** (decibels / 20)), spans


def test_turns_end_beside_somebody_who_speaks_on(model: SileroModel) -> None:
    samples, spans = beside_another(-20)
    assert len(VoiceDetector(model).feed(samples)) < 2 * len(spans)  # one turn that does not end
    events = VoiceDetector(model, NEAR).feed(samples)
    # Who was there before the first sentence was the nearest one so far.
    first = next(i for i, e in enumerate(events) if isinstance(e, SpeechStopped))
    assert abs(events[first].sample - 500 * 16 - spans[0][1]) < 450 * 16
    [started, stopped] = events[first + 1 :]
    assert isinstance(started, SpeechStarted) and isinstance(stopped, SpeechStopped)
    assert abs(started.sample + 300 * 16 - spans[1][0]) < 130 * 16
    assert abs(stopped.sample - 500 * 16 - spans[1][1]) < 450 * 16


def test_alone_turns_are_what_they_were(model: SileroModel) -> None:
    samples, spans = beside_another(-200)
    usual, near = VoiceDetector(model).feed(samples), VoiceDetector(model, NEAR).feed(samples)
    assert [type(event) for event in near] == [SpeechStarted, SpeechStopped] * len(spans)
    # A word that begins quietly begins a window later; the padding has it.
    assert all(abs(a.sample - b.sample) <= 2 * WINDOW for a, b in zip(usual, near, strict=True))


@pytest.mark.parametrize("size", [160, 1000, 5000])
def test_chunks_change_nothing(model: SileroModel, size: int) -> None:
    samples, _ = beside_another(-20)
    whole = VoiceDetector(model, NEAR).feed(samples)
    detector = VoiceDetector(model, NEAR)
    events = [
        e for at in range(0, len(samples), size) for e in detector.feed(samples[at : at + size])
    ]
    assert events == whole and len(samples) > 100 * WINDOW


def test_a_setting_holds_from_the_next_window_and_a_new_stream_has_heard_nobody(
    model: SileroModel,
) -> None:
    samples, spans = beside_another(-20)
    detector = VoiceDetector(model)
    detector.feed(samples[: spans[0][1]])
    assert detector.speaking
    detector.update(NEAR)  # who was nearest is known all the same
    [stopped, started, _] = detector.feed(samples[spans[0][1] :])
    assert isinstance(stopped, SpeechStopped) and isinstance(started, SpeechStarted)
    detector.reset()
    [started] = detector.feed(samples[: spans[0][0]])  # nobody else has spoken yet
    assert isinstance(started, SpeechStarted)
