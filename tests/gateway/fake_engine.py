"""An engine for tests: no process, no model, answers at once and in a known way.

It "hears" one word per 0.1 s of audio and commits it as soon as the audio is there, so text flows
while audio is still being appended, and the transcript of a turn is known from its length.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from lookhear.engine.client.client import (
    EngineRequestError,
    EngineState,
    EngineUnavailable,
    ModelGone,
    Recovery,
)
from lookhear.engine.client.state import Availability
from lookhear.engine.messages import (
    SAMPLE_RATE,
    AdapterLoaded,
    AppendAudio,
    CancelAnswer,
    CancelTurn,
    DiariseFile,
    DropPicture,
    DropRecording,
    EndTurn,
    EngineFailed,
    Event,
    ExpectSpeech,
    FileDiarised,
    FileProgress,
    FileTranscribed,
    HoldEmbeddings,
    HoldPicture,
    HoldRecording,
    LiveLoad,
    LoadAdapter,
    Message,
    ModelCard,
    Pong,
    Pooled,
    ReadAhead,
    RequestDone,
    Segment,
    SpeakerTurn,
    StartAnswer,
    StartPooling,
    StartTurn,
    TextCommitted,
    TextProvisional,
    TokenLogprob,
    TranscribeFile,
    TurnCompleted,
    TurnFailed,
    UnloadAdapter,
    Word,
)
from tests.gateway.fake_chat import VISION, ChatRequest, FakeChat, Held
from tests.gateway.pooling.fake_pooling import FakePooling

OnProgress = Callable[[FileProgress], None]
WORD_SAMPLES = SAMPLE_RATE // 10
CARDS = [
    ModelCard(
        "fake/whisper",
        "whisper",
        ["de", "en", "fr"],
        1_700_000_000,
        1_800_000,
        abilities=["transcribe", "translate"],
    ),
    ModelCard("fake-english", "whisper", ["en"], 1_700_000_000, 900_000),
]


def transcript(samples: int) -> str:
    """What the fake makes of a turn of so many samples."""
    return "".join(word(i) for i in range(samples // WORD_SAMPLES))


def word(index: int) -> str:
    return ("" if index == 0 else " ") + f"w{index}"


@dataclass
class FakeTurn:
    start: StartTurn
    samples: int = 0
    words: int = 0
    voiced_until: int = 0
    text: list[str] = field(default_factory=list)


class FakeEngine:
    """The methods of EngineClient. hold: committed turns wait until `release`. sees: it serves
    "fake/vision" besides, see `chat`."""

    def __init__(self, *, hold: bool = False, sees: bool = False) -> None:
        self.ready = True
        self.down: set[str] = set()  # models whose engine is being started again
        self.restarted: asyncio.Event | None = None  # what is waited for while a model is down
        self.counting: asyncio.Event | None = None  # what newcomers wait for when somebody has gone
        self.waiting = 0  # for either
        self.hold = hold
        self.on_request: Callable[[str, RequestDone], None] = lambda model, done: None
        self.models = [*CARDS, VISION] if sees else list(CARDS)
        self.chat = FakeChat(self._emit_to)
        self.pooling = FakePooling()
        self.adapters: list[LoadAdapter] = []
        self.adapter_error: EngineRequestError | None = None
        self.stats: dict[str, Pong] = {}
        self.recovery = Recovery()
        self.loads: dict[str, LiveLoad] = {}  # of models that bound the lag
        self.messages: list[Message] = []
        self.turns: dict[tuple[str, str], FakeTurn] = {}
        self.files: list[TranscribeFile] = []
        self.file_error: EngineRequestError | None = None
        self.diarised: list[DiariseFile] = []
        self.speakers: list[SpeakerTurn] = []  # of every file
        self.diarise_error: EngineRequestError | None = None
        self.file_segments: Sequence[str] = ()  # told of one after another, before all else
        self.segment_languages: Sequence[str | None] = ()  # in which each of them is
        self.file_gate: asyncio.Event | None = None
        self.cancelled_files: list[str] = []
        self.sessions: dict[str, Callable[[Event], None]] = {}
        self.uses: dict[str, str] = {}  # the model of each open session
        self.closed_sessions: list[str] = []
        self.closed = False
        self.changed = asyncio.Condition()
        self._held: list[EndTurn] = []
        self._notices: set[asyncio.Task[None]] = set()

    # --- EngineClient ----------------------------------------------------------------------------

    @property
    def states(self) -> list[EngineState]:
        up = {
            True: (Availability.READY, "", 1.0),
            False: (Availability.RESTARTING, "loading weights", 0.25),
        }
        return [EngineState(card.id, *up[self.is_ready(card.id)]) for card in self.models]

    def watch(self, on_request: Callable[[str, RequestDone], None]) -> None:
        self.on_request = on_request

    def is_ready(self, model: str) -> bool:
        return self.ready and model in {card.id for card in self.models} - self.down

    async def until_ready(self, model: str) -> bool:
        if not self.is_ready(model) and self.restarted is not None:
            self.waiting += 1
            self._changed()
            await self.restarted.wait()
        return self.is_ready(model)

    def live_load(self, model: str) -> LiveLoad | None:
        load = self.loads.get(model)
        if load is None:
            return None
        told = [m for m in self.messages if isinstance(m, ExpectSpeech) and m.model == model]
        inside = sum(message.session in self.sessions for message in told)
        places = max(0, load.places - inside)
        return dataclasses.replace(load, speakers=inside, places=places)

    async def counted_out(self, model: str) -> None:
        if self.counting is not None:
            self.waiting += 1
            self._changed()
            await self.counting.wait()

    def serves(self, session: str, model: str) -> bool:
        told = (m for m in self.messages if isinstance(m, ExpectSpeech))
        return session in self.sessions and any(
            message.session == session and message.model == model for message in told
        )

    def open_session(self, session: str, on_event: Callable[[Event], None]) -> None:
        self.sessions[session] = on_event
        self._changed()

    def use_model(self, session: str, model: str) -> None:
        assert session in self.sessions
        self.uses[session] = model

    def close_session(self, session: str) -> None:
        if self.sessions.pop(session, None) is None:
            return
        self.uses.pop(session, None)
        self.closed_sessions.append(session)
        self.turns = {key: turn for key, turn in self.turns.items() if key[0] != session}
        self.chat.forget(session)
        self._changed()

    def send(self, message: Message) -> None:
        if not self.ready:
            raise EngineUnavailable("the engine is not running")
        self.messages.append(message)
        match message:
            case StartTurn():
                if not self.is_ready(message.settings.model):
                    self.messages.pop()
                    raise self._lack(message.settings.model)
                self.turns[message.session, message.turn] = FakeTurn(message)
            case ExpectSpeech():
                assert message.session in self.sessions
            case AppendAudio():
                assert message.samples.dtype == np.float32
                self._append(message)
            case CancelTurn():
                del self.turns[message.session, message.turn]
            case EndTurn():
                if self.hold:
                    self._held.append(message)
                else:
                    self._soon(lambda: self._end(message))
            case (
                StartAnswer()
                | HoldPicture()
                | DropPicture()
                | HoldRecording()
                | DropRecording()
                | HoldEmbeddings()
                | ReadAhead()
                | CancelAnswer()
            ):
                self._chat(message)
            case _:
                raise AssertionError(message)
        self._changed()

    async def transcribe_file(
        self, message: TranscribeFile, on_progress: OnProgress | None = None
    ) -> FileTranscribed:
        self.files.append(message)
        self._changed()
        duration = len(message.samples) / SAMPLE_RATE
        told = list(self.file_segments)
        for number, text in enumerate(told, 1):
            seconds = duration * number / len(told)
            segment = Segment(text, 0.0, seconds, [1], -0.25, 0.0)
            if on_progress is not None:
                on_progress(FileProgress(message.request, [segment], seconds, duration))
        if self.file_gate is not None:
            try:
                await self.file_gate.wait()
            except asyncio.CancelledError:
                self.cancelled_files.append(message.request)
                self._changed()
                raise
        if self.file_error is not None:
            raise self.file_error
        done = RequestDone("", message.request, "batch", 2.0, 1.0)
        self.on_request(message.settings.model, done)
        text = "" if duration == 0 else f"{message.settings.task} {duration:.1f} seconds."
        segments = [Segment(f" {text}", 0.0, duration, [1, 2], -0.25, 0.01)] if text else []
        if told:
            text = "".join(told).strip()
        if self.segment_languages:
            said = zip(told, self.segment_languages, strict=True)
            segments = [Segment(t, 0.0, 1.0, [1], -0.25, 0.0, language=code) for t, code in said]
        words = [Word(" seconds.", 0.0, duration, 0.9)] if message.settings.words else []
        language = message.settings.language or "en"
        logprobs = [TokenLogprob(text, -0.5, list(text.encode()))]
        wanted = logprobs if message.settings.logprobs else None
        return FileTranscribed(
            message.request, text, language, duration, segments, words, 5, wanted, 50, 4
        )

    async def diarise_file(self, message: DiariseFile) -> FileDiarised:
        self.diarised.append(message)
        if self.diarise_error is not None:
            raise self.diarise_error
        return FileDiarised(message.request, self.speakers)

    async def pool(
        self, message: StartPooling, held: Sequence[HoldPicture | HoldEmbeddings] = ()
    ) -> list[Pooled]:
        try:
            return await self.pooling.pool(message, held)
        finally:
            self._changed()

    async def load_adapter(self, message: LoadAdapter, *, replaces: bool) -> AdapterLoaded:
        if self.adapter_error is not None:
            raise self.adapter_error
        (base,) = [card for card in self.models if card.id == message.model]
        id = f"{message.model}:{message.name}"
        if not replaces and any(card.id == id for card in self.models):
            raise EngineRequestError("duplicate_adapter", "expected another name")
        self.models = [card for card in self.models if card.id != id]
        self.models.append(dataclasses.replace(base, id=id, parent=base.id))
        self.adapters.append(message)
        return AdapterLoaded(message.request, message.name, 8, "v1")

    async def unload_adapter(self, message: UnloadAdapter) -> None:
        id = f"{message.model}:{message.name}"
        if not any(card.id == id for card in self.models):
            raise EngineRequestError("invalid_adapter", "expected one that is loaded")
        self.models = [card for card in self.models if card.id != id]

    async def close(self) -> None:
        self.closed = True

    # --- what tests do to it ---------------------------------------------------------------------

    def release(self, most: int | None = None) -> None:
        """Complete what was held, or the first so many."""
        held = self._held[:most]
        del self._held[:most]
        for message in held:
            self._end(message)

    def be_well(self) -> None:
        """Forget every trouble that a test asked for, and the files it sent."""
        self.ready = True
        self.down.clear()
        self.restarted = self.counting = None
        self.waiting = 0
        self.files.clear()
        self.cancelled_files.clear()
        self.file_error = self.file_gate = None
        self.file_segments = ()
        self.segment_languages = ()
        self.chat.be_well()

    def die(self, model: str | None = None) -> None:
        """As when the engine process of a model ends, or of all."""
        self.down |= {card.id for card in self.models if model in (None, card.id)}
        lost = [key for key, t in self.turns.items() if t.start.settings.model in self.down]
        hit = {session for session, used in self.uses.items() if used in self.down}
        hit |= self.chat.lose(self.down)
        for key in lost:
            del self.turns[key]
        for session in hit | {session for session, _ in lost}:
            self.sessions[session](EngineFailed("engine_died", "it ended unexpectedly"))

    async def wait_for(self, condition: Callable[[], bool]) -> None:
        """Until the condition holds; checked at every change."""
        async with asyncio.timeout(60):
            async with self.changed:
                await self.changed.wait_for(condition)

    # --- inside ----------------------------------------------------------------------------------

    def _chat(self, message: ChatRequest) -> None:
        assert message.session in self.sessions
        model = message.settings.model if isinstance(message, StartAnswer) else None
        if isinstance(message, Held | ReadAhead):
            model = message.model
        if model is not None and not self.is_ready(model):
            self.messages.pop()
            raise self._lack(model)
        self.chat.receive(message)

    def _lack(self, model: str) -> EngineUnavailable:
        if model not in {card.id for card in self.models}:
            return ModelGone(f"no engine serves {model!r}")
        return EngineUnavailable(f"no engine of {model} is running")

    def _append(self, message: AppendAudio) -> None:
        turn = self.turns.get((message.session, message.turn))
        if turn is None:
            return
        turn.samples += len(message.samples)
        assert 0 <= message.voiced_until <= turn.samples
        assert message.voiced_until >= turn.voiced_until
        turn.voiced_until = message.voiced_until
        self._soon(lambda: self._speak(message.session, message.turn))

    def _speak(self, session: str, name: str) -> None:
        turn = self.turns.get((session, name))
        if turn is None:
            return
        settings = turn.start.settings
        if (turn.words + 1) * WORD_SAMPLES <= turn.samples:
            self.on_request(settings.model, RequestDone(session, name, "live", 0.25, 0.5))
        while (turn.words + 1) * WORD_SAMPLES <= turn.samples:
            text = word(turn.words)
            at = turn.words / 10
            logprobs = [TokenLogprob(text, -0.5, list(text.encode()))]
            words = [Word(text, at, at + 0.1, 0.9)]
            turn.words += 1
            turn.text.append(text)
            self._emit(
                TextCommitted(
                    session,
                    name,
                    text,
                    logprobs if settings.logprobs else None,
                    words if settings.words else None,
                )
            )
        if settings.provisional:
            self._emit(TextProvisional(session, name, " maybe"))

    def _end(self, message: EndTurn) -> None:
        self._speak(message.session, message.turn)
        turn = self.turns.pop((message.session, message.turn), None)
        if turn is None:
            return
        self._emit(
            TurnCompleted(
                message.session,
                message.turn,
                "".join(turn.text),
                turn.start.settings.language or "en",
                turn.samples / SAMPLE_RATE,
                turn.words,
            )
        )

    def _emit(self, event: TextCommitted | TextProvisional | TurnCompleted | TurnFailed) -> None:
        self._emit_to(event.session, event)

    def _emit_to(self, session: str, event: Event) -> None:
        handler = self.sessions.get(session)
        if handler is not None:
            handler(event)
        self._changed()

    def _soon(self, act: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_soon(act)

    def _changed(self) -> None:
        async def tell() -> None:
            async with self.changed:
                self.changed.notify_all()

        task = asyncio.get_running_loop().create_task(tell())
        self._notices.add(task)
        task.add_done_callback(self._notices.discard)
