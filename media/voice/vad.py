"""Voice activity: the state machine that turns the probabilities of Silero VAD into turns.

All positions are absolute sample numbers on one 16 kHz stream.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lookhear.media.voice.nearness import NearGate, Nearness
from lookhear.media.voice.silero import CONTEXT, WINDOW, SileroModel, SileroStream

__all__ = [
    "SileroModel",
    "SileroStream",
    "SpeechPaused",
    "SpeechStarted",
    "SpeechStopped",
    "TurnDetector",
    "VadConfig",
    "VadEvent",
    "VoiceDetector",
]

Samples = NDArray[np.float32]

RATE = 16000
# Voices far from the microphone are too quiet for the model: what it hears is amplified until the
# loudest window so far is LOUD, MOST_GAIN at most. How loud somebody was is forgotten by halves. An
# offset (direct current) is no sound.
LOUD = 0.03  # root mean square, of full scale
MOST_GAIN = 100.0
HALF_SECONDS = 20.0
FADING = 0.25 ** (WINDOW / (HALF_SECONDS * RATE))  # of an energy, from one window to the next
LOUD_ENERGY = LOUD**2 * WINDOW
LEAST_ENERGY = LOUD_ENERGY / MOST_GAIN**2
MEAN = np.full(WINDOW, 1 / WINDOW, dtype=np.float32)


@dataclass(frozen=True)
class SpeechStarted:
    """A turn began at `sample`, prefix padding included."""

    sample: int


@dataclass(frozen=True)
class SpeechStopped:
    """A turn ended at `sample`, the required silence included."""

    sample: int


@dataclass(frozen=True)
class SpeechPaused:
    """Nobody has spoken for `milliseconds` at `sample`, which may or may not be the turn's end."""

    sample: int
    milliseconds: int


VadEvent = SpeechStarted | SpeechStopped | SpeechPaused


@dataclass(frozen=True)
class VadConfig:
    """When speech counts as begun and as over. Probabilities in [0, 1], times in milliseconds."""

    threshold: float = 0.5
    negative_threshold: float | None = None  # None: threshold - 0.15, not below 0.01
    prefix_padding_ms: int = 300
    silence_duration_ms: int = 500
    min_speech_ms: int = 64
    pauses_ms: tuple[int, ...] = ()  # silences that are told of, shorter than the last
    near_field: bool = False  # voices that are far quieter than the nearest one are none

    def __post_init__(self) -> None:
        if not 0.0 <= self.threshold <= 1.0:
            raise ValueError(f"threshold: expected a number from 0 to 1; got {self.threshold!r}")
        if self.negative_threshold is not None and not (
            0.0 <= self.negative_threshold <= self.threshold
        ):
            raise ValueError(
                f"negative_threshold: expected a number from 0 to threshold ({self.threshold}); "
                f"got {self.negative_threshold!r}"
            )
        for name in ("prefix_padding_ms", "silence_duration_ms", "min_speech_ms"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name}: expected 0 or more; got {getattr(self, name)!r}")

    @property
    def floor(self) -> float:
        """Below this probability a window of a running turn is silent."""
        if self.negative_threshold is not None:
            return self.negative_threshold
        return min(max(self.threshold - 0.15, 0.01), self.threshold)


class TurnDetector:
    """Speech probabilities in, turns out. Pure: no model, no clock.

    idle -> (min_speech_ms in a row at or above the threshold; dips down to the floor are
    forgiven) -> speaking -> (silence_duration_ms without a window at or above the threshold,
    counted from the first window below the floor; on the way, each of pauses_ms) -> idle.
    """

    def __init__(self, config: VadConfig) -> None:
        self.config = config
        self.reset()

    def reset(self) -> None:
        """Back to sample 0, before any speech."""
        self.speaking = False
        self.voiced_until = 0
        self._turn_end = 0  # no turn may begin before this sample
        self._onset: int | None = None  # first window of a run of speech too short to count yet
        self._silent_from: int | None = None  # while speaking: where the present silence began

    def push(self, probability: float, start: int, end: int) -> VadEvent | None:
        """One window [start, end): the next one of the stream."""
        config = self.config
        voiced = probability >= config.threshold or (
            probability >= config.floor
            and (self._onset is not None or (self.speaking and self._silent_from is None))
        )
        if voiced:
            self.voiced_until = end
        if not self.speaking:
            return self._wait(voiced, start, end)
        if voiced:
            self._silent_from = None
            return None
        if self._silent_from is None:
            if probability >= config.floor:
                return None
            self._silent_from = start
        silence = config.silence_duration_ms * RATE // 1000
        silent = end - self._silent_from
        if silent < silence:
            for pause in config.pauses_ms:
                due = pause * RATE // 1000
                if silent - (end - start) < due <= silent:
                    return SpeechPaused(self._silent_from + due, pause)
            return None
        self.end_turn(self._silent_from + silence)
        return SpeechStopped(self._turn_end)

    def _wait(self, voiced: bool, start: int, end: int) -> VadEvent | None:
        if not voiced:
            self._onset = None
            return None
        if self._onset is None:
            self._onset = start
        if (end - self._onset) * 1000 < self.config.min_speech_ms * RATE:
            return None
        padding = self.config.prefix_padding_ms * RATE // 1000
        sample = max(self._onset - padding, self._turn_end)
        self.speaking, self._onset, self._silent_from = True, None, None
        return SpeechStarted(sample)

    def end_turn(self, sample: int) -> None:
        """The turn is over at `sample` (also by hand: a commit or a clear). No event is given."""
        self.speaking, self._onset, self._silent_from = False, None, None
        self._turn_end = max(self._turn_end, sample)


class VoiceDetector:
    """A stream of samples in chunks of any size -> turns. Events do not depend on the chunking.

    `feed` does all at once. Who judges the windows of many streams together does it in two steps:
    `windows`, and `advance` with what `SileroModel.judge` makes of them and of `stream`.

    Not thread-safe: one stream, one caller at a time.
    """

    def __init__(self, model: SileroModel, config: VadConfig | None = None) -> None:
        self._model = model
        self._turns = TurnDetector(config or VadConfig())
        self.stream = SileroStream()
        # The samples that windows to come will see: first the context, silence at the beginning.
        self._tail: Samples = np.zeros(CONTEXT, dtype=np.float32)
        self._loudest = 0.0  # energy of a window, fading
        self._energies: deque[float] = deque()  # of windows that are not judged yet
        self._nearness, self._gate = Nearness(), NearGate()
        self._judged = 0
        self.position = 0  # samples heard; up to one window of them is not judged yet

    @property
    def config(self) -> VadConfig:
        return self._turns.config

    @property
    def speaking(self) -> bool:
        return self._turns.speaking

    @property
    def voiced_until(self) -> int:
        """End of the last window with speech in it; 0 if there was none yet."""
        return self._turns.voiced_until

    def feed(self, samples: Samples) -> list[VadEvent]:
        """samples: [n] float32 at 16 kHz -> the events that they complete, in order."""
        [probabilities] = self._model.judge([self.stream], [self.windows(samples)])
        return self.advance(len(samples), iter(probabilities.tolist()))

    def windows(self, samples: Samples) -> Samples:
        """samples: [n], the next ones -> [k, CONTEXT + WINDOW], the windows that they complete, as
        loud as they are judged."""
        tail = np.concatenate([self._tail, samples])
        count = (len(tail) - CONTEXT) // WINDOW
        found = np.empty((count, CONTEXT + WINDOW), dtype=np.float32)
        for row in range(count):
            found[row] = tail[row * WINDOW : row * WINDOW + CONTEXT + WINDOW]
            self._amplify(found[row])
        self._tail = tail[count * WINDOW :]
        return found

    def _amplify(self, window: Samples) -> None:
        new = window[CONTEXT:]
        window -= new @ MEAN
        energy = float(new @ new)
        self._energies.append(energy)
        self._loudest = max(energy, self._loudest * FADING)
        if self._loudest < LOUD_ENERGY:
            window *= math.sqrt(LOUD_ENERGY / max(self._loudest, LEAST_ENERGY))

    def advance(self, count: int, probabilities: Iterator[float]) -> list[VadEvent]:
        """The next `count` samples were heard; probabilities: of the windows that they complete,
        and perhaps of more -> their events."""
        self.position += count
        events: list[VadEvent] = []
        while self._judged + WINDOW <= self.position:
            start, self._judged = self._judged, self._judged + WINDOW
            probability, energy = next(probabilities), self._energies.popleft()
            is_voice = probability >= self.config.threshold
            is_near = self._nearness.is_near(energy, is_voice=is_voice)
            is_far = self.config.near_field and not is_near
            self._gate.judged(is_far=is_far and is_voice)
            if is_far:
                probability = 0.0
            event = self._turns.push(probability, start, self._judged)
            if event is not None:
                events.append(event)
        return events

    def quieten(self, samples: Samples) -> Samples:
        """samples: [n <= WINDOW], the last that `advance` was told of -> [n], as they are to be
        heard: with near_field, what is not near is hardly there."""
        return self._gate.quieten(samples, self.position - len(samples))

    def update(self, config: VadConfig) -> None:
        """New settings from the next window on; the turn in progress goes on."""
        self._turns.config = config

    def end_turn(self, sample: int | None = None) -> None:
        """The turn ends here by hand (a commit, a clear), or at `sample`: the next one begins no
        earlier.

        If the person speaks on, SpeechStarted follows again.
        """
        self._turns.end_turn(self.position if sample is None else sample)

    def reset(self) -> None:
        """A new stream: position 0, nothing heard."""
        self.stream.reset()
        self._turns.reset()
        self._tail = np.zeros(CONTEXT, dtype=np.float32)
        self._energies.clear()
        self._nearness, self._gate = Nearness(), NearGate()
        self._loudest = 0.0
        self._judged = self.position = 0
