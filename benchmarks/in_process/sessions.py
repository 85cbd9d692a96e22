"""Long speech as one live turn of an engine core: in process, on the audio's own clock, metered.

No sockets and no waiting: a piece of audio goes in, the core steps until it has nothing left to do,
then comes the next piece. What is timed is the core alone (messages and steps); the voice detector
ran before.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lookhear.bench.measures.trace import RATE, SpokenWord
from lookhear.bench.recordings.dataset import Audio, Utterance
from lookhear.engine.core.core import EngineCore
from lookhear.engine.messages import (
    SAMPLE_RATE,
    AppendAudio,
    EndTurn,
    Event,
    StartTurn,
    TextCommitted,
    TranscriptionSettings,
    TurnCompleted,
    TurnFailed,
)
from lookhear.media.audio.resample import resample
from lookhear.media.voice.vad import SileroModel, VoiceDetector
from lookhear.wer import WordErrors, align, normalise

Samples = NDArray[np.float32]
PIECE = SAMPLE_RATE // 20  # 50 ms


@dataclass(frozen=True, slots=True)
class Speech:
    """A recording said again and again, each time at another loudness.

    Were it equally loud, its windows would be found in the caches, and a long session would look
    cheaper than speech is. loop: [n * PIECE] samples at 16 kHz. voiced: per piece of the loop, the
    end of the last speech in it so far. words: of the loop, seconds. num_pieces: in all.
    """

    name: str
    language: str
    loop: Samples
    voiced: tuple[int, ...]
    words: tuple[SpokenWord, ...]
    num_pieces: int
    seed: int = 0

    @classmethod
    def of(
        cls,
        recording: Utterance,
        audio: Audio,
        silero: SileroModel,
        *,
        seconds: float,
        start: float = 0.0,
        seed: int = 0,
    ) -> Speech:
        """start: where in the recording to begin, moved to the pause before the next word."""
        samples = resample(audio.of(recording).astype(np.float32) / 32768.0, RATE, SAMPLE_RATE)
        samples = samples[: len(samples) // PIECE * PIECE]
        words = recording.words
        first = next((i for i, word in enumerate(words) if word.start >= start), 0)
        if first:
            cut = (words[first - 1].end + words[first].start) / 2
            samples = np.roll(samples, -int(cut * SAMPLE_RATE))
            length = len(samples) / SAMPLE_RATE
            words = (*_moved(words[first:], -cut), *_moved(words[:first], length - cut))
        detector, voiced = VoiceDetector(silero), []
        for at in range(0, len(samples), PIECE):
            detector.feed(samples[at : at + PIECE])
            voiced.append(detector.voiced_until)
        count = round(seconds * SAMPLE_RATE / PIECE)
        return cls(recording.name, recording.language, samples, tuple(voiced), words, count, seed)

    @property
    def seconds(self) -> float:
        """Of audio."""
        return self.num_pieces * PIECE / SAMPLE_RATE

    def piece(self, number: int) -> tuple[Samples, int]:
        """(samples, voiced_until on the turn's clock) of piece number 0, 1, ..."""
        lap, index = divmod(number, len(self.voiced))
        base = lap * len(self.loop)
        voiced = self.voiced[index]
        if voiced:
            voiced += base
        elif lap:  # nothing yet in this lap: what was heard in the one before
            voiced = base - len(self.loop) + self.voiced[-1]
        samples = self.loop[index * PIECE : (index + 1) * PIECE]
        return samples * self._gain(lap), voiced

    def samples(self) -> Samples:
        """All of it."""
        return np.concatenate([self.piece(number)[0] for number in range(self.num_pieces)])

    def _gain(self, lap: int) -> np.float32:
        if lap == 0 and self.seed == 0:
            return np.float32(1.0)
        return np.float32(np.random.default_rng([self.seed, lap]).uniform(0.6, 1.0))

    def said(self) -> tuple[SpokenWord, ...]:
        """The words that end within it, on its own clock."""
        lap_seconds = len(self.loop) / SAMPLE_RATE
        laps = -(-self.num_pieces // len(self.voiced))
        words = [word for lap in range(laps) for word in _moved(self.words, lap * lap_seconds)]
        return tuple(word for word in words if word.end <= self.seconds)

    @property
    def text(self) -> str:
        """What was committed, joined by spaces."""
        return " ".join(word.word for word in self.said())


def _moved(words: Sequence[SpokenWord], by: float) -> list[SpokenWord]:
    return [replace(word, start=word.start + by, end=word.end + by) for word in words]


@dataclass(slots=True)
class Meter:
    """Seconds spent computing: of processor time (all threads of the process), and by the clock."""

    cpu: float = 0.0
    wall: float = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        """What happens inside counts."""
        cpu, wall = time.process_time(), time.perf_counter()
        yield
        self.cpu += time.process_time() - cpu
        self.wall += time.perf_counter() - wall


class Minutes:
    """A meter for each minute of audio."""

    def __init__(self) -> None:
        self.meters: list[Meter] = []

    def at(self, seconds: float) -> Meter:
        """The meter of the minute in which this second of the audio lies."""
        while len(self.meters) <= int(seconds // 60):
            self.meters.append(Meter())
        return self.meters[int(seconds // 60)]

    @property
    def total(self) -> Meter:
        """Of all minutes."""
        return Meter(sum(m.cpu for m in self.meters), sum(m.wall for m in self.meters))


@dataclass(slots=True)
class Listener:
    """One live turn of a core that has no other work. ticks: seconds of audio heard at each."""

    core: EngineCore
    settings: TranscriptionSettings
    speech: Speech
    minutes: Minutes = field(default_factory=Minutes)
    ticks: list[float] = field(default_factory=list)
    committed: list[tuple[float, str]] = field(default_factory=list)
    text: str = ""
    position: int = 0  # pieces heard
    _begun: dict[str, int] = field(default_factory=dict)
    _gained: dict[str, int] | None = None  # of the counters, once it is finished

    def __post_init__(self) -> None:
        self._begun = self.core.stats()
        self._do(StartTurn("session", self.speech.name, self.settings), 0.0)

    def hear(self, num_pieces: int) -> None:
        """Hear on until so many pieces, from the beginning, are heard."""
        name = self.speech.name
        while self.position < min(num_pieces, self.speech.num_pieces):
            samples, voiced = self.speech.piece(self.position)
            seconds = self.position * PIECE / SAMPLE_RATE
            self.position += 1
            self._do(AppendAudio("session", name, samples, voiced), seconds)

    def finish(self) -> None:
        """The audio is over: the rest is said."""
        self._do(EndTurn("session", self.speech.name), self.speech.seconds - 1e-6)
        self._gained = self.counted()  # the core goes on with the next recording

    def _do(self, message: Any, seconds: float) -> None:
        before = self.core.stats()["requests"]
        events: list[Event] = []
        with self.minutes.at(seconds).running():
            self.core.submit(message)
            while self.core.has_work:
                events += self.core.step()
        self.ticks += [seconds] * (self.core.stats()["requests"] - before)
        for event in events:
            if isinstance(event, TextCommitted):
                self.committed.append((seconds, event.text))
            elif isinstance(event, TurnCompleted):
                self.text = event.text
            elif isinstance(event, TurnFailed):
                raise RuntimeError(f"{self.speech.name}: {event.code}: {event.message}")

    def counted(self) -> dict[str, int]:
        """What the core's counters have gained since the turn began, until it was finished."""
        if self._gained is not None:
            return self._gained
        return {name: count - self._begun[name] for name, count in self.core.stats().items()}


def block_errors(reference: str, heard: str, size: int = 20) -> list[WordErrors]:
    """The errors of one long text in blocks of `size` reference words, to draw from for an
    interval. They add up to those of the whole; an inserted word counts in the block of the
    reference word before it."""
    said, words = normalise(reference), normalise(heard)
    counts = [[0, 0, 0] for _ in range(max(1, -(-len(said) // size)))]
    last = 0
    for i, j in align(said, words):
        last = last if i is None else i
        block = counts[last // size]
        if i is None:
            block[2] += 1
        elif j is None:
            block[1] += 1
        elif said[i] != words[j]:
            block[0] += 1
    return [
        WordErrors(wrong, missing, added, min(size, len(said) - number * size))
        for number, (wrong, missing, added) in enumerate(counts)
    ]
