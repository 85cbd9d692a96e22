"""What ticks cost on this machine, found out before the first speaker comes.

Sessions that nobody speaks in hear something like speech, first one of them, then several at once,
and the engine's work is timed. The clock comes from outside.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from lookhear.engine.admission.tick_cost import Rehearsal
from lookhear.engine.core.core import EngineCore
from lookhear.engine.messages import (
    SAMPLE_RATE,
    AppendAudio,
    CloseSession,
    Event,
    Message,
    StartTurn,
    TranscriptionSettings,
    TurnFailed,
)

CROWD = 4  # sessions at once
FIRST_SECONDS = 1.0  # of audio that is not timed: caches are cold, memory is not there yet
UPDATE_SECONDS = 0.5  # of new audio in each round
ROUNDS = 3
PATIENCE_SECONDS = 2.0  # with one crowd; at least one round of it is heard


def rehearse(core: EngineCore, model: str, clock: Callable[[], float]) -> Rehearsal | None:
    """model: by its name on the wire. clock: seconds. None if the model cannot even do that;
    whoever speaks is told why."""
    samples = babble(FIRST_SECONDS + ROUNDS * UPDATE_SECONDS)
    alone = _seconds(core, model, 1, samples, clock)
    if alone is None:
        return None
    if alone > PATIENCE_SECONDS:  # a crowd would take minutes, and there is no room for one
        return Rehearsal(alone, alone, CROWD)
    crowded = _seconds(core, model, CROWD, samples, clock)
    return None if crowded is None else Rehearsal(alone, crowded / CROWD, CROWD)


def _seconds(
    core: EngineCore,
    model: str,
    sessions: int,
    samples: NDArray[np.float32],
    clock: Callable[[], float],
) -> float | None:
    """Of a round, in the middle: one tick of each session."""
    names = [f"rehearsal-{number}" for number in range(sessions)]
    failed = _run(core, [StartTurn(name, "t", TranscriptionSettings(model)) for name in names])
    rounds: list[float] = []
    heard, end = 0, round(FIRST_SECONDS * SAMPLE_RATE)
    while end <= len(samples) and not failed:
        piece = samples[heard:end]
        began = clock()
        failed = _run(core, [AppendAudio(name, "t", piece, end) for name in names])
        if heard:
            rounds.append(clock() - began)
        if sum(rounds) > PATIENCE_SECONDS:
            break
        heard, end = end, end + round(UPDATE_SECONDS * SAMPLE_RATE)
    _run(core, [CloseSession(name) for name in names])
    return statistics.median(rounds) if rounds and not failed else None


def _run(core: EngineCore, messages: list[Message]) -> bool:
    """Until there is nothing to do. Whether a turn failed."""
    events: list[Event] = []
    for message in messages:
        core.submit(message)
    while core.has_work:
        events += core.step()
    return any(isinstance(event, TurnFailed) for event in events)


def babble(seconds: float) -> NDArray[np.float32]:
    """[n] at 16 kHz: a voice of 120 Hz whose vowels change four times a second. Always the same."""
    time = np.arange(round(seconds * SAMPLE_RATE)) / SAMPLE_RATE
    random = np.random.default_rng(0)
    sound = np.zeros(len(time))
    syllables = (time * 4).astype(int)
    formants = random.uniform((300, 900), (800, 2300), (syllables[-1] + 1, 2))
    pitch = 2 * np.pi * np.cumsum(120 + 15 * np.sin(2 * np.pi * 0.7 * time)) / SAMPLE_RATE
    for harmonic in range(1, 30):
        distance = np.abs(harmonic * 120 - formants) / (80, 120)
        sound += np.exp(-distance).sum(axis=1)[syllables] * np.sin(harmonic * pitch)
    sound *= 0.55 - 0.45 * np.cos(2 * np.pi * 4 * time)  # silent between two syllables, nearly
    sound += 0.01 * random.standard_normal(len(time))
    loud: NDArray[np.float32] = (0.3 * sound / np.abs(sound).max()).astype(np.float32)
    return loud
