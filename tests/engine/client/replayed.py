"""A session behind a journal: engines that listen to a script, die at any event, are replaced."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np

from lookhear.engine.client.journal import Held, Journal
from lookhear.engine.core.core import EngineCore
from lookhear.engine.core.request import Demand, Phase, Result
from lookhear.engine.core.runner import Failure, Finish
from lookhear.engine.core.scheduler import Scheduler
from lookhear.engine.messages import (
    SAMPLE_RATE,
    AppendAudio,
    EndTurn,
    Event,
    Message,
    StartTurn,
    TextCommitted,
    TranscriptionSettings,
    TurnCompleted,
)
from lookhear.engine.speech.desk import SpeechDesk
from lookhear.engine.speech.earlier import EarlierRule
from lookhear.engine.speech.live import LiveTurn
from lookhear.engine.speech.live_config import LiveConfig
from lookhear.engine.speech.speaker import Speaker
from lookhear.engine.speech.transcriber import Transcriber
from lookhear.engine.whisper.recognizer import WhisperRecognizer, WindowRule
from lookhear.engine.whisper.request import WhisperRequest
from tests.engine.speech.scripted import Speech

WINDOW = WindowRule(SAMPLE_RATE // 2, SAMPLE_RATE, 30 * SAMPLE_RATE, SAMPLE_RATE // 5)
CONFIG = LiveConfig()
EARLIER = EarlierRule(14 * SAMPLE_RATE, 7 * SAMPLE_RATE, 320)


@dataclass(slots=True)
class Job:
    request: WhisperRequest
    answer: Result
    phase: Phase = Phase.PREFILL
    num_drafted: int = 0

    @property
    def key(self) -> str:
        return self.request.key

    def demand(self) -> Demand:
        return Demand(1)

    def result(self) -> Result:
        return self.answer


class Listener:
    """A runner with a perfect ear. speeches: what is said in each turn, by its name."""

    free_tokens = 10**6

    def __init__(self, speeches: dict[str, Speech]) -> None:
        self._speeches = speeches
        self.core: EngineCore | None = None

    def place(self, request: WhisperRequest) -> Job:
        assert self.core is not None
        live = cast(LiveTurn, self.core._owners[request.key][1])
        speech = self._speeches[request.key.partition("/")[2]]
        heard = speech.hear(request, live.segment_start - CONFIG.lead_in)
        if request.language is None:  # it sounds English
            heard = replace(heard, languages={1000: -3.0, 1001: -0.05})
        return Job(request, heard)

    def launch(self, work: Sequence[tuple[Job, int]]) -> Finish:
        for job, _ in work:
            job.phase = Phase.DONE
        return list[Failure]

    def release(self, job: Job) -> None: ...

    def forget(self, key: str) -> None: ...

    def stats(self) -> dict[str, int]:
        return {}

    def check(self, num_running: int) -> None: ...


@dataclass(slots=True)
class Engine:
    core: EngineCore
    desk: SpeechDesk

    @classmethod
    def of(cls, speeches: dict[str, Speech]) -> Engine:
        *_, last = speeches.values()  # its vocabulary has the words of all before it

        def recognizer(wanted: TranscriptionSettings) -> WhisperRecognizer:
            return WhisperRecognizer(cast(Any, last.vocabulary), WINDOW, wanted)

        family = Transcriber(
            CONFIG, ["de", "en"], recognizer, cast(Any, None), has_word_times=True, earlier=EARLIER
        )
        desk, runner = SpeechDesk("m", family, 1), Listener(speeches)
        runner.core = EngineCore(desk, cast(Any, runner), Scheduler(4, 10**9))
        return cls(runner.core, desk)

    def take(self, message: Message) -> list[Event]:
        self.core.submit(message)
        events: list[Event] = []
        while self.core.has_work:
            events += self.core.step()
            self.core.check()
        return events

    @property
    def speaker(self) -> Speaker | None:
        return self.desk._speakers.get("s")


@dataclass(slots=True)
class Told:
    """What the session heard."""

    events: list[Event] = field(default_factory=list)

    def texts(self) -> dict[str, str]:
        """By turn, in the order of their completion; checked against what was said in pieces."""
        texts = {}
        for event in self.events:
            if isinstance(event, TurnCompleted):
                said = [e for e in self.committed if e.turn == event.turn]
                assert event.text == "".join(e.text for e in said)
                assert event.turn not in texts
                texts[event.turn] = event.text
        return texts

    def words(self) -> list[tuple[str, str, float, float]]:
        return [
            (e.turn, w.word, round(w.start, 3), round(w.end, 3))
            for e in self.committed
            for w in e.words or []
        ]

    @property
    def committed(self) -> list[TextCommitted]:
        return [event for event in self.events if isinstance(event, TextCommitted)]


@dataclass(frozen=True, slots=True)
class Death:
    """at: after which message. heard: how many of the events that it brings are still heard. back:
    how many messages are sent before there is another engine."""

    at: int
    heard: int = 0
    back: int = 0


def script(speeches: dict[str, Speech], chunk: int, **changes: Any) -> list[Message]:
    """All turns, in pieces of `chunk` samples."""
    messages: list[Message] = []
    for name, speech in speeches.items():
        settings = TranscriptionSettings("m", words=True, **changes)
        messages.append(StartTurn("s", name, settings))
        for at in range(0, round(speech.duration * SAMPLE_RATE), chunk):
            samples = speech.samples(at, at + chunk)
            messages.append(AppendAudio("s", name, samples, speech.voiced_until(at + chunk)))
        messages.append(EndTurn("s", name))
    return messages


def play(
    speeches: dict[str, Speech], messages: Sequence[Message], deaths: Sequence[Death] = ()
) -> tuple[Told, Journal, Held]:
    """The whole session; engines die on the way."""
    told, held = Told(), Held()
    journal = Journal("s", "m", held)
    engine: Engine | None = Engine.of(speeches)
    by_message = {death.at: death for death in deaths}
    back = 0
    for number, message in enumerate(messages):
        sent = journal.sent(message)
        death = by_message.get(number)
        events: list[Event] = []
        if engine is not None:
            events = engine.take(sent)
        elif number >= back:
            engine = Engine.of(speeches)
            before = journal.replay()
            for again in before:
                events += engine.take(again)
        if death is not None and engine is not None:
            engine, events, back = None, events[: death.heard], number + 1 + death.back
        told.events += [e for event in events if (e := journal.heard(event)) is not None]
        if engine is not None and not journal.is_busy:
            check_same_past(engine, journal, speeches)
    if engine is None:
        engine = Engine.of(speeches)
        for again in journal.replay():
            told.events += [
                e for event in engine.take(again) if (e := journal.heard(event)) is not None
            ]
    return told, journal, held


def check_same_past(engine: Engine, journal: Journal, speeches: dict[str, Speech]) -> None:
    """Another engine would know of what was said before what this one knows."""
    if engine.speaker is None:
        return
    other = Engine.of(speeches)
    for message in journal.replay():
        assert not other.take(message)
    mine = engine.speaker.earlier.before("en", "transcribe").segments
    if other.speaker is None:
        assert not mine
        return
    theirs = other.speaker.earlier.before("en", "transcribe").segments
    assert len(mine) == len(theirs)
    for a, b in zip(mine, theirs, strict=True):
        np.testing.assert_array_equal(a.samples, b.samples)
        assert (a.start, a.end, a.tokens, a.language) == (b.start, b.end, b.tokens, b.language)
    assert engine.speaker._language.belief == other.speaker._language.belief
    assert engine.speaker._language.spoken == other.speaker._language.spoken
    assert engine.speaker._language.is_solid == other.speaker._language.is_solid
