"""The Realtime session as a pure state machine: no sockets, no clocks, no threads.

In go client events, heard audio, loaded pictures and engine events; out come `Output`s, in order.
Ids come from the injected factory and time from the arguments, so the same script always gives the
same frames. Order of the calls is the order of the client's frames: all audio before a commit has
been passed to `hear` when the commit is passed to `receive`, and what an event points at (`wanted`)
was loaded before it.

Speech is `listening`'s, what is said and shown `dialogue`'s; here they are put together, and the
session's settings and type are kept: a transcription session only listens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import assert_never

from lookhear.engine.messages import (
    AnswerCompleted,
    AnswerFailed,
    AnswerStarted,
    AnswerText,
    EngineFailed,
    Event,
    ModelCard,
    TextCommitted,
    TextProvisional,
    TurnCompleted,
    TurnFailed,
)
from lookhear.gateway.checks.checks import ProtocolError
from lookhear.gateway.realtime.answering.dialogue import Dialogue, DialogueLimits
from lookhear.gateway.realtime.listening.audio_intake import Heard
from lookhear.gateway.realtime.listening.turns import Turns
from lookhear.gateway.realtime.openai import rendering as wire
from lookhear.gateway.realtime.openai.parsing import (
    Append,
    Clear,
    ClientEvent,
    Commit,
    FrameAppend,
    FramesClear,
    ItemCreate,
    ItemDelete,
    ItemRetrieve,
    ItemTruncate,
    OutputClear,
    ResponseCancel,
    ResponseCreate,
    SessionUpdate,
)
from lookhear.gateway.realtime.pictures.media_requests import Media, MediaRequest
from lookhear.gateway.realtime.protocol.conversation import Conversation
from lookhear.gateway.realtime.protocol.outputs import (
    Close,
    Emitter,
    IdFactory,
    Output,
    Tune,
    UseModel,
)
from lookhear.gateway.realtime.protocol.refusals import (
    cannot_hear,
    engine_stopped,
    no_conversation,
    no_item,
    still_answering,
)
from lookhear.gateway.realtime.settings.settings import SessionSettings, first_settings


class RealtimeProtocol:
    """One session. Every method returns what is to be done, in order."""

    def __init__(
        self,
        *,
        session: str,
        models: Sequence[ModelCard],
        requested_model: str | None,
        ids: IdFactory,
        max_turn_seconds: float,
        max_items: int,
        transcribes: bool = False,
        expires_at: int | None = None,
        limits: DialogueLimits | None = None,
        seeds: Callable[[], int] = lambda: 0,
    ) -> None:
        """transcribes: the URL asks for a transcription session. seeds: draws those of answers."""
        assert models, "an engine serves at least one model"
        self.session = session
        self._models = models
        self._expires_at = expires_at
        self._settings, self._problem = first_settings(
            models, requested_model, transcribes=transcribes
        )
        self._emitter = Emitter(ids)
        self._conversation = Conversation(max_items)
        self._dialogue = Dialogue(
            session,
            self._settings,
            models,
            self._conversation,
            self._emitter,
            ids=ids,
            seeds=seeds,
            limits=limits or DialogueLimits(),
        )
        self._turns = Turns(
            session,
            self._settings,
            self._conversation,
            self._emitter,
            self._dialogue,
            ids=ids,
            max_turn_seconds=max_turn_seconds,
        )
        self._dialogue.turns = self._turns
        self._told_deaf = False

    @property
    def settings(self) -> SessionSettings:
        return self._settings

    @property
    def pending_turns(self) -> int:
        """Committed turns whose transcript is not known yet."""
        return self._turns.pending

    @property
    def turns_committed(self) -> int:
        return self._turns.turns_committed

    @property
    def seconds_heard(self) -> float:
        return self._turns.seconds_heard

    @property
    def can_hear(self) -> bool:
        """Whether any served model transcribes; else audio is refused, not heard."""
        return self._settings.model is not None

    # --- inputs ----------------------------------------------------------------------------------

    def start(self) -> list[Output]:
        """The socket is open. What its URL asked for and cannot be had is an error."""
        self._emitter.put(UseModel(self._settings.main_model))
        self._tune()
        self._emitter.send(wire.session_created(self._session_on_wire()))
        if self._problem is not None:
            self._emitter.send(wire.error(self._problem))
        return self._take()

    def wanted(self, event: ClientEvent) -> list[MediaRequest]:
        """What has to be loaded before the event is received; nothing if it will be refused."""
        if self._settings.converse is None:
            return []
        match event:
            case ItemCreate() | ResponseCreate() | FrameAppend():
                return self._dialogue.wanted(event)
            case _:
                return []

    def receive(
        self, event: ClientEvent, *, now: float, media: Media | None = None
    ) -> list[Output]:
        """A client event other than an append, whose audio comes through `hear`. media: what was
        `wanted`, by path."""
        try:
            self._receive(event, now, media or {})
        except ProtocolError as problem:
            self._emitter.send(wire.error(problem))
        return self._take()

    def _receive(self, event: ClientEvent, now: float, media: Media) -> None:
        match event:
            case SessionUpdate():
                self._update(event)
            case Commit():
                self._turns.commit_by_hand(event, now)
            case Clear():
                self._turns.clear()
            case ItemRetrieve():
                item = self._conversation.get(event.item_id)
                if item is None:
                    raise no_item(event.item_id, event.event_id)
                self._emitter.send(wire.item_retrieved(item.on_wire()))
            case ItemDelete():
                self._dialogue.delete(event)
            case OutputClear():
                pass  # nothing is ever played
            case Append():
                raise AssertionError("audio is heard, not received")
            case _ if self._settings.converse is None:
                raise no_conversation(event)
            case ItemCreate():
                self._dialogue.create_item(event, media, now)
            case ItemTruncate():
                self._dialogue.truncate(event)
            case ResponseCreate():
                self._dialogue.create_response(event, media)
            case ResponseCancel():
                self._dialogue.cancel_response(event)
            case FrameAppend():
                self._dialogue.see(event, media)
            case FramesClear():
                self._dialogue.clear_frames()
            case _:
                assert_never(event)

    def refuse(self, problem: ProtocolError) -> list[Output]:
        """A frame that was no usable event: tell the client, go on."""
        self._emitter.send(wire.error(problem))
        return self._take()

    def refuse_audio(self, event_id: str | None) -> list[Output]:
        """Audio came and nobody hears it: told once."""
        if not self._told_deaf:
            self._told_deaf = True
            self._emitter.send(wire.error(cannot_hear("audio", event_id)))
        return self._take()

    def hear(self, heard: Heard, *, now: float, event_id: str | None = None) -> list[Output]:
        """The next samples of the session. event_id: of the append they came with."""
        assert self.can_hear
        self._turns.hear(heard, now=now, event_id=event_id)
        return self._take()

    def engine(self, event: Event, *, now: float) -> list[Output]:
        """An event of the engine. About what was cleared or cancelled meanwhile: ignored."""
        match event:
            case TextCommitted() | TextProvisional() | TurnCompleted() | TurnFailed():
                self._turns.engine(event, now)
            case AnswerStarted() | AnswerText() | AnswerCompleted() | AnswerFailed():
                self._dialogue.responses.engine(event)
            case EngineFailed():
                problem = engine_stopped(event)
                self._dialogue.responses.fail_all(problem)
                self._emitter.send(wire.error(problem))
                self._emitter.put(Close(1012, "engine restart"))
                return self._emitter.take()  # and nothing new is begun
            case _:
                pass
        return self._take()

    # --- settings --------------------------------------------------------------------------------

    def _update(self, event: SessionUpdate) -> None:
        old = self._settings
        new = old.merged(event.session, self._models, event.event_id)
        if new.converse is None and len(self._dialogue.responses):
            raise still_answering(event.event_id)
        self._settings = new
        if new.main_model != old.main_model:
            self._emitter.put(UseModel(new.main_model))
        self._tune()
        self._emitter.send(wire.session_updated(self._session_on_wire()))
        self._dialogue.tune(new)
        self._turns.tune(new)

    def _tune(self) -> None:
        self._emitter.put(Tune(self._settings.format, self._settings.vad()))

    def _session_on_wire(self) -> wire.Json:
        return self._settings.on_wire(self.session, self._expires_at)

    def _take(self) -> list[Output]:
        self._dialogue.settle()
        return self._emitter.take()
