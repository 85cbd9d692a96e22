"""A loaded engine at work: a recording, live sessions side by side, a question about a picture."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lookhear.engine.core.core import EngineCore
from lookhear.engine.messages import (
    SAMPLE_RATE,
    AnswerCompleted,
    AnswerFailed,
    AnswerSettings,
    AnswerStarted,
    AnswerText,
    AppendAudio,
    AudioPart,
    ChatMessage,
    CloseSession,
    Event,
    FileFailed,
    FileTranscribed,
    HoldPicture,
    HoldRecording,
    ImagePart,
    Message,
    Part,
    Pooled,
    PoolingFailed,
    PoolingInput,
    PoolingSettings,
    StartAnswer,
    StartPooling,
    StartTurn,
    TextPart,
    TranscribeFile,
    TranscriptionSettings,
    TurnFailed,
    Word,
)
from lookhear.engine.speech.text.word_times import loud_stretches

CROWD = 4  # sessions side by side, for what each one more costs
UPDATE_SECONDS = 1.0  # of new audio in each update of the live trial
PATIENCE_SECONDS = 20.0  # with a live trial
TEXTS = ("Paris is the capital of France.", "A circle is round.", "Berlin lies on the Spree.")


class TrialFailed(Exception):
    """The engine could not do what was asked for."""


@dataclass(frozen=True, slots=True)
class Heard:
    """A whole recording. took: seconds for all of it. words: if their times were wanted."""

    text: str
    language: str | None
    took: float
    words: tuple[Word, ...] = ()


@dataclass(frozen=True, slots=True)
class Lived:
    """Sessions that get `UPDATE_SECONDS` of audio at once, again and again. rounds: seconds until
    the engine had nothing more to do with it, each time."""

    sessions: int
    rounds: list[float]

    @property
    def median(self) -> float:
        """Seconds of a round."""
        return statistics.median(self.rounds)

    @property
    def slowest(self) -> float:
        """Seconds."""
        return max(self.rounds)


@dataclass(frozen=True, slots=True)
class Answered:
    """first: seconds to the first token; per_second: tokens after it."""

    text: str
    first: float
    per_second: float


@dataclass(frozen=True, slots=True)
class Read:
    """width: of a vector. per_second: tokens. scores: of the sentences, in order."""

    width: int
    per_second: float
    scores: list[float]


def hear(
    core: EngineCore, model: str, samples: NDArray[np.float32], *, words: bool = False
) -> Heard:
    """samples: [n], 16 kHz. words: whether their times are wanted. Raises TrialFailed."""
    began = time.perf_counter()
    # The gateway's voice detector is none of the engine's; what is loud stands for it.
    speech = loud_stretches(samples)
    settings = TranscriptionSettings(model, words=words)
    file = TranscribeFile("check", settings, samples, speech=speech)
    for event in _work(core, file):
        if isinstance(event, FileTranscribed):
            took = time.perf_counter() - began
            return Heard(event.text, event.language, took, tuple(event.words))
        if isinstance(event, FileFailed):
            raise TrialFailed(event.message)
    raise AssertionError("a file is answered")


def live(core: EngineCore, model: str, samples: NDArray[np.float32], sessions: int) -> Lived:
    """All hear the same, as if all of it were speech. A slow machine does not get to its end, but
    through at least one round. samples: at least `UPDATE_SECONDS`. Raises TrialFailed."""
    step = round(UPDATE_SECONDS * SAMPLE_RATE)
    names = [f"check-{number}" for number in range(sessions)]
    for name in names:
        _run(core, StartTurn(name, "t", TranscriptionSettings(model)))
    rounds: list[float] = []
    for end in range(step, len(samples) + 1, step):
        piece = samples[end - step : end]
        began = time.perf_counter()
        _run(core, *(AppendAudio(name, "t", piece, end) for name in names))
        rounds.append(time.perf_counter() - began)
        if sum(rounds) > PATIENCE_SECONDS:
            break
    for name in names:
        _run(core, CloseSession(name))
    return Lived(sessions, rounds)


def capacity(alone: Lived, crowd: Lived) -> int:
    """Sessions that can all be updated each `UPDATE_SECONDS`: a straight line through the medians
    of one and of several."""
    each = (crowd.median - alone.median) / (crowd.sessions - alone.sessions)
    if each <= 0:  # within the noise: several cost what one does
        return int(crowd.sessions * UPDATE_SECONDS / crowd.median)
    return max(0, int(1 + (UPDATE_SECONDS - alone.median) / each))


def ask(
    core: EngineCore,
    model: str,
    question: str,
    *,
    sees: bool,
    samples: NDArray[np.float32] | None = None,
) -> Answered:
    """sees: about a red circle and a blue square. samples: [n], 16 kHz, that it hears, too. Raises
    TrialFailed."""
    parts: list[Part] = [TextPart(question)]
    if samples is not None:
        _run(core, HoldRecording("check", model, "r", samples))
        parts.insert(0, AudioPart("r"))
    if sees:
        _run(core, HoldPicture("check", model, "p", picture()))
        parts.insert(0, ImagePart("p"))
    settings = AnswerSettings(model, max_tokens=48, temperature=0.0)
    text, first, tokens = "", 0.0, 0
    began = time.perf_counter()
    for event in _work(
        core,
        StartAnswer("check", "a", settings, [ChatMessage("user", parts)]),
    ):
        match event:
            case AnswerStarted():
                first = time.perf_counter() - began
            case AnswerText() if not event.is_reasoning:
                text += event.text
            case AnswerCompleted():
                tokens = event.usage.output
            case AnswerFailed():
                raise TrialFailed(event.message)
    took = time.perf_counter() - began - first
    _run(core, CloseSession("check"))
    return Answered(text.strip(), first, max(0, tokens - 1) / took if took else 0.0)


def read(core: EngineCore, model: str, *, scores: bool) -> Read:
    """Some sentences become vectors; scores: or are compared with a question. Raises
    TrialFailed."""

    def given(text: str) -> PoolingInput:
        return PoolingInput([ChatMessage("user", [TextPart(text)])])

    queries = [given("What is the capital of France?")] if scores else []
    kind = "score" if scores else "vector"
    began = time.perf_counter()
    found: list[Pooled] = []
    message = StartPooling("check", PoolingSettings(model, kind), [*map(given, TEXTS)], queries)
    for event in _work(core, message):
        if isinstance(event, PoolingFailed):
            raise TrialFailed(event.message)
        if isinstance(event, Pooled):
            found.append(event)
    took = time.perf_counter() - began
    _run(core, CloseSession("check"))
    found.sort(key=lambda one: one.index)
    numbers = [float(one.vectors[0, 0]) for one in found] if scores else []
    return Read(found[0].vectors.shape[1], sum(one.tokens for one in found) / took, numbers)


def picture() -> NDArray[np.uint8]:
    """[224, 320, 3] RGB: a red circle on the left, a blue square on the right, on white."""
    pixels = np.full((224, 320, 3), 255, np.uint8)
    down, across = np.mgrid[:224, :320]
    pixels[(down - 112) ** 2 + (across - 80) ** 2 < 50**2] = (220, 30, 30)
    pixels[64:160, 192:288] = (30, 60, 220)
    return pixels


def _work(core: EngineCore, *messages: Message) -> Iterator[Event]:
    for message in messages:
        core.submit(message)
    while True:
        yield from core.step()
        if not core.has_work:
            return


def _run(core: EngineCore, *messages: Message) -> None:
    for event in _work(core, *messages):
        if isinstance(event, TurnFailed):
            raise TrialFailed(event.message)
