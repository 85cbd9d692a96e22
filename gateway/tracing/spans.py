"""An engine whose work is traced: a span for each turn, answer and file.

Data flow: what the gateway sends begins a span, under the request or socket in whose handler the
session was opened; what the engine says becomes events of it, or ends it. Nothing that users said
or were told is in a span.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from opentelemetry import context
from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import Span, Status, StatusCode, Tracer, set_span_in_context

from lookhear.engine.client.client import EngineState, Recovery
from lookhear.engine.messages import (
    SAMPLE_RATE,
    AdapterLoaded,
    AnswerCompleted,
    AnswerFailed,
    AnswerStarted,
    CancelAnswer,
    CancelTurn,
    DiariseFile,
    EndTurn,
    EngineFailed,
    Event,
    FileDiarised,
    FileProgress,
    FileTranscribed,
    HoldEmbeddings,
    HoldPicture,
    LiveLoad,
    LoadAdapter,
    Message,
    ModelCard,
    Pong,
    Pooled,
    RequestDone,
    StartAnswer,
    StartPooling,
    StartTurn,
    TextCommitted,
    TextProvisional,
    TranscribeFile,
    TurnCompleted,
    TurnFailed,
    UnloadAdapter,
)
from lookhear.gateway.services.engine import Engine

_COMPUTED = {"turn": "tick", "answer": "generation", "file": "window"}  # by the span above it
Told = bool | int | float | str


@dataclass(slots=True)
class _Session:
    """parent: of its spans. open: by turn or answer."""

    parent: Context
    open: dict[str, Span] = field(default_factory=dict)


class TracedEngine:
    """`Engine`, by another one. Every method belongs to the event loop, as those of the other."""

    def __init__(self, engine: Engine, tracer: Tracer) -> None:
        self._engine = engine
        self._tracer = tracer
        self._sessions: dict[str, _Session] = {}
        self._files: dict[str, Span] = {}

    # --- as it is --------------------------------------------------------------------------------

    @property
    def states(self) -> list[EngineState]:
        """As of the other."""
        return self._engine.states

    @property
    def models(self) -> list[ModelCard]:
        """As of the other."""
        return self._engine.models

    @property
    def stats(self) -> dict[str, Pong]:
        """As of the other."""
        return self._engine.stats

    @property
    def recovery(self) -> Recovery:
        """As of the other."""
        return self._engine.recovery

    def is_ready(self, model: str) -> bool:
        """As of the other."""
        return self._engine.is_ready(model)

    async def until_ready(self, model: str) -> bool:
        """As of the other."""
        return await self._engine.until_ready(model)

    def live_load(self, model: str) -> LiveLoad | None:
        """As of the other."""
        return self._engine.live_load(model)

    async def counted_out(self, model: str) -> None:
        """As of the other."""
        await self._engine.counted_out(model)

    def serves(self, session: str, model: str) -> bool:
        """As of the other."""
        return self._engine.serves(session, model)

    def use_model(self, session: str, model: str) -> None:
        """As of the other."""
        self._engine.use_model(session, model)

    async def close(self) -> None:
        """As of the other."""
        await self._engine.close()

    # --- what is traced --------------------------------------------------------------------------

    def watch(self, on_request: Callable[[str, RequestDone], None]) -> None:
        """Each is a span of its own below its turn, answer or file, from when it was wanted."""

        def told(model: str, done: RequestDone) -> None:
            self._computed(done)
            on_request(model, done)

        self._engine.watch(told)

    def open_session(self, session: str, on_event: Callable[[Event], None]) -> None:
        """Its spans belong to the span in which this is called."""
        self._sessions[session] = _Session(context.get_current())
        self._engine.open_session(session, partial(self._said, session, on_event))

    def close_session(self, session: str) -> None:
        """What is open in it is given up."""
        if (found := self._sessions.pop(session, None)) is not None:
            for span in found.open.values():
                span.add_event("given up")
                span.end()
        self._engine.close_session(session)

    def send(self, message: Message) -> None:
        """Raises EngineUnavailable."""
        self._engine.send(message)
        match message:
            case StartTurn(session, turn, settings):
                told = {"lookhear.language": settings.language or "", "lookhear.turn": turn}
                self._begin(session, turn, "turn", settings.model, told)
            case EndTurn(session, turn):
                if (span := self._span(session, turn)) is not None:
                    span.add_event("speech ended")
            case StartAnswer(session, answer, settings):
                told = {"lookhear.answer": answer}
                self._begin(session, answer, "answer", settings.model, told)
            case CancelTurn(session, work) | CancelAnswer(session, work):
                if (span := self._pop(session, work)) is not None:
                    span.add_event("cancelled")
                    span.end()
            case _:
                pass

    async def transcribe_file(
        self, message: TranscribeFile, on_progress: Callable[[FileProgress], None] | None = None
    ) -> FileTranscribed:
        """Raises EngineRequestError, EngineUnavailable."""
        told: dict[str, Told] = {
            "lookhear.model": message.settings.model,
            "lookhear.audio_seconds": len(message.samples) / SAMPLE_RATE,
        }
        with self._tracer.start_as_current_span("file", attributes=told) as span:
            self._files[message.request] = span
            try:
                found = await self._engine.transcribe_file(message, on_progress)
            finally:
                del self._files[message.request]
            span.set_attribute("lookhear.tokens", found.num_tokens)
            return found

    async def diarise_file(self, message: DiariseFile) -> FileDiarised:
        """Raises EngineRequestError, EngineUnavailable."""
        told: dict[str, Told] = {
            "lookhear.model": message.model,
            "lookhear.audio_seconds": len(message.samples) / SAMPLE_RATE,
        }
        with self._tracer.start_as_current_span("speakers", attributes=told):
            return await self._engine.diarise_file(message)

    async def pool(
        self, message: StartPooling, held: Sequence[HoldPicture | HoldEmbeddings] = ()
    ) -> list[Pooled]:
        """Raises InputRefused, EngineUnavailable."""
        told: dict[str, Told] = {
            "lookhear.model": message.settings.model,
            "lookhear.inputs": len(message.documents),
        }
        with self._tracer.start_as_current_span(message.settings.kind, attributes=told) as span:
            found = await self._engine.pool(message, held)
            span.set_attribute("lookhear.tokens", sum(one.tokens for one in found))
            return found

    async def load_adapter(self, message: LoadAdapter, *, replaces: bool) -> AdapterLoaded:
        """Raises EngineRequestError, EngineUnavailable."""
        return await self._engine.load_adapter(message, replaces=replaces)

    async def unload_adapter(self, message: UnloadAdapter) -> None:
        """Raises EngineRequestError, EngineUnavailable."""
        await self._engine.unload_adapter(message)

    # --- spans -----------------------------------------------------------------------------------

    def _begin(self, session: str, work: str, name: str, model: str, told: dict[str, str]) -> None:
        found = self._sessions.get(session)
        if found is None:
            return
        attributes = {"lookhear.session": session, "lookhear.model": model, **told}
        span = self._tracer.start_span(name, context=found.parent, attributes=attributes)
        found.open[work] = span

    def _computed(self, done: RequestDone) -> None:
        """The clocks of engine and gateway differ, so its times are counted back from now."""
        file = self._files.get(done.work) or self._files.get(done.session)
        parent = self._span(done.session, done.work) or file
        if parent is None or not isinstance(parent, ReadableSpan):  # or one that nobody keeps
            return
        now = time.time_ns()
        wanted = now - round((done.waited + done.took) * 1e9)
        span = self._tracer.start_span(
            _COMPUTED[parent.name],
            context=set_span_in_context(parent),
            start_time=wanted,
            attributes={"lookhear.waited_seconds": done.waited},
        )
        span.add_event("begun", timestamp=now - round(done.took * 1e9))
        span.end(now)

    def _span(self, session: str, work: str) -> Span | None:
        found = self._sessions.get(session)
        return None if found is None else found.open.get(work)

    def _pop(self, session: str, work: str) -> Span | None:
        found = self._sessions.get(session)
        return None if found is None else found.open.pop(work, None)

    def _said(self, session: str, on_event: Callable[[Event], None], event: Event) -> None:
        found = self._sessions.get(session)
        if found is not None:
            _note(found, event)
        on_event(event)


def _note(found: _Session, event: Event) -> None:
    match event:
        case TextCommitted(turn=turn) | TextProvisional(turn=turn):
            if (span := found.open.get(turn)) is not None:
                is_firm = isinstance(event, TextCommitted)
                told = {"lookhear.characters": len(event.text)}
                span.add_event("text committed" if is_firm else "tick", told)
        case AnswerStarted(answer=answer):
            if (span := found.open.get(answer)) is not None:
                usage = event.usage
                told = {"lookhear.prompt_tokens": usage.prompt, "lookhear.cached": usage.cached}
                span.add_event("first token", told)
        case TurnCompleted(turn=turn):
            heard: dict[str, Told] = {
                "lookhear.audio_seconds": event.duration,
                "lookhear.tokens": event.num_tokens,
                "lookhear.language": event.language or "",
            }
            _end(found.open.pop(turn, None), heard)
        case AnswerCompleted(answer=answer):
            written: dict[str, Told] = {
                "lookhear.tokens": event.usage.output,
                "lookhear.reason": event.reason,
            }
            _end(found.open.pop(answer, None), written)
        case TurnFailed(turn=work, code=code) | AnswerFailed(answer=work, code=code):
            _fail(found.open.pop(work, None), code)
        case EngineFailed(code=code):
            for span in found.open.values():
                _fail(span, code)
            found.open.clear()
        case _:
            pass


def _end(span: Span | None, attributes: dict[str, Told]) -> None:
    if span is not None:
        span.set_attributes(attributes)
        span.end()


def _fail(span: Span | None, code: str) -> None:
    """By its code: the message may quote what a user sent."""
    if span is not None:
        span.set_status(Status(StatusCode.ERROR, code))
        span.end()
