"""Pauses of many sessions are judged together; one too many is told at once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence

import numpy as np
import pytest
import pytest_asyncio
from numpy.typing import NDArray

from lookhear.gateway.realtime.listening.audio_intake import AudioIntake, Heard
from lookhear.gateway.services.turn_ends import MOST_AT_ONCE, MOST_WAITING, TurnEnds
from lookhear.gateway.services.turn_model import OFF, turn_model
from lookhear.gateway.telemetry.metrics import Metrics
from lookhear.media.audio.pcm import AudioFormat
from lookhear.media.voice.silero import SileroModel
from lookhear.media.voice.smart_turn import SILENCE_MS
from lookhear.media.voice.vad import SpeechPaused, SpeechStarted, VadConfig

Samples = NDArray[np.float32]


class Listener:
    """Says what stands in the first sample, once it may."""

    def __init__(self) -> None:
        self.may = threading.Event()
        self.batches: list[int] = []
        self.error: Exception | None = None

    def judge(self, heard: Sequence[Samples]) -> list[float]:
        self.may.wait()
        self.batches.append(len(heard))
        if self.error is not None:
            raise self.error
        return [float(sound[0]) for sound in heard]


@pytest.fixture
def model() -> Listener:
    return Listener()


@pytest_asyncio.fixture
async def ends(model: Listener) -> AsyncIterator[TurnEnds]:
    ends = TurnEnds(Metrics())
    await ends.load(lambda: model)
    yield ends
    model.may.set()
    ends.close()


def sound(value: float) -> Samples:
    return np.array([value], np.float32)


def counted(ends: TurnEnds, outcome: str) -> float:
    name = "lookhear_turn_questions_total"
    return ends._metrics.registry.get_sample_value(name, {"outcome": outcome}) or 0.0


@pytest.mark.asyncio
async def test_each_gets_its_own_and_one_too_many_is_refused(
    ends: TurnEnds, model: Listener
) -> None:
    values = [i / 16 for i in range(MOST_WAITING + 1)]
    asked = [asyncio.create_task(ends.ask(sound(value))) for value in values]
    refused = asyncio.create_task(ends.ask(sound(1.0)))
    assert await refused is None
    model.may.set()
    assert await asyncio.gather(*asked) == values
    assert model.batches[0] == 1 and max(model.batches) == MOST_AT_ONCE
    assert (counted(ends, "answered"), counted(ends, "refused")) == (len(values), 1)


@pytest.mark.asyncio
async def test_a_model_that_fails_is_no_answer(ends: TurnEnds, model: Listener) -> None:
    model.may.set()
    model.error = RuntimeError("broken")
    assert await ends.ask(sound(0.5)) is None and counted(ends, "failed") == 1
    model.error = None
    assert await ends.ask(sound(0.5)) == 0.5


@pytest.mark.asyncio
async def test_without_a_model_nobody_can_tell() -> None:
    ends = TurnEnds(Metrics())
    await ends.load(lambda: turn_model(OFF))
    assert not ends.can_tell and await ends.ask(sound(1.0)) is None
    ends.close()


def spoken(*stretches: tuple[float, int]) -> list[float]:
    """Probabilities of windows of 32 ms."""
    return [value for value, count in stretches for _ in range(count)]


@pytest.mark.asyncio
@pytest.mark.parametrize("split", [512, 700, 5000])
async def test_a_pause_is_asked_about_once_and_what_ends_there_is_over_for_what_follows(
    ends: TurnEnds, model: Listener, split: int
) -> None:
    """And not before it matters."""
    model.may.set()
    config = VadConfig(silence_duration_ms=2000, pauses_ms=(200, 400, 600))
    intake = AudioIntake(SileroModel(), AudioFormat("audio/pcm", 16_000), config)
    script = spoken((0.9, 20), (0.0, 30), (0.9, 10), (0.0, 10))
    samples = np.full(len(script) * 512, 0.25, np.float32)
    told: list[tuple[object, float | None]] = []
    wanted: list[int] = []

    def turn(heard: Heard) -> int:
        assert heard.pause is not None
        return 1 if heard.pause.sample < 50 * 512 else 2

    def wants_sound(heard: Heard) -> bool:
        assert heard.pause is not None and heard.sound is not None
        spoken = {1: 20 * 512, 2: 10 * 512 + 4800}[turn(heard)]
        assert len(heard.sound) == spoken + SILENCE_MS * 16
        wanted.append(heard.pause.milliseconds)
        return heard.pause.milliseconds == 400

    for start in range(0, len(samples), split):
        piece = samples[start : start + split]
        windows = script[start // 512 : (start + len(piece)) // 512]
        assert len(intake.windows(piece)) == len(windows)  # that the script judges
        async for part in intake.heard(piece, windows, ends, wants_sound):
            told += [(event, part.over) for event in part.events]
            if part.pause is not None and part.pause.milliseconds == 600:
                intake.end_turn(part.pause.sample)
    assert told == [
        (SpeechStarted(0), None),
        (SpeechPaused(20 * 512 + 3200, 200), None),
        (SpeechPaused(20 * 512 + 6400, 400), 0.25),
        (SpeechPaused(20 * 512 + 9600, 600), 0.25),
        (SpeechStarted(50 * 512 - 4800), None),
        (SpeechPaused(60 * 512 + 3200, 200), None),
    ]
    assert wanted == [200, 400, 200] and model.batches == [1]
    name = "lookhear_turn_ends_total"
    assert ends._metrics.registry.get_sample_value(name, {"rule": "sound"}) == 1
