"""The Realtime session as a pure state machine: no sockets, no clocks, no threads.

In go commands of the client, heard audio, loaded media and engine events; out come `Output`s, in
order. Ids come from the injected factory and time from the arguments, so the same script always
gives the same frames. Order of the calls is the order of the client's frames: all audio before a
commit has been passed to `hear` when the commit is passed to `receive`, and what a command points
at (`requests`) comes to `loaded`, or its refusal to `not_loaded`, before the next command.

Speech is `Turns`', what is said and shown `Dialogue`'s; here they are put together, and the
session's settings and type are kept: a transcription session only listens. What the client is told
are plain events; how they look on the wire is the dialect's alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import assert_never

from lookhear.engine.messages import (
    SAMPLE_RATE,
    AnswerCall,
    AnswerCompleted,
    AnswerFailed,
    AnswerStarted,
    AnswerText,
    DiarisingFailed,
    EngineFailed,
    Event,
    ModelCard,
    SpeakersHeard,
    TextCommitted,
    TextProvisional,
    TurnCompleted,
    TurnFailed,
)
from lookhear.gateway.checks.checks import ProtocolError
from lookhear.gateway.realtime.answering.dialogue import Dialogue
from lookhear.gateway.realtime.answering.item_checks import Checked
from lookhear.gateway.realtime.answering.limits import DialogueLimits
from lookhear.gateway.realtime.listening.audio_intake import Heard
from lookhear.gateway.realtime.listening.long_silence import LongSilence
from lookhear.gateway.realtime.listening.speakers import SessionSpeakers
from lookhear.gateway.realtime.listening.turn import milliseconds
from lookhear.gateway.realtime.listening.turns import Turns
from lookhear.gateway.realtime.pictures.media_requests import Media, MediaRequest
from lookhear.gateway.realtime.protocol import commands, events
from lookhear.gateway.realtime.protocol.conversation import AudioContent, Conversation, Item
from lookhear.gateway.realtime.protocol.dialect import Close, Dialect
from lookhear.gateway.realtime.protocol.outputs import Emitter, Output, Tune, UseModel
from lookhear.gateway.realtime.protocol.refusals import (
    cannot_hear,
    engine_stopped,
    going_away,
    no_conversation,
    no_item,
    still_answering,
)
from lookhear.gateway.realtime.settings import SessionSettings
from lookhear.gateway.telemetry.ids import IdFactory

SHUT_DOWN = Close(1001, "server shutting down")


class RealtimeProtocol:
    """One session. Every method returns what is to be done, in order."""

    def __init__(
        self,
        *,
        session: str,
        models: Sequence[ModelCard],
        dialect: Dialect,
        ids: IdFactory,
        max_turn_seconds: float,
        max_items: int,
        expires_at: int | None = None,
        limits: DialogueLimits | None = None,
        seeds: Callable[[], int] = lambda: 0,
        resume: events.ResumeOffer | None = None,
        hears_ends: bool = False,
        created_at: float = 0.0,
    ) -> None:
        """dialect: of the client. seeds: draws those of answers. resume: what the client is
        offered. hears_ends: somebody can tell by its sound whether a turn is over. created_at:
        Unix seconds."""
        assert models, "an engine serves at least one model"
        self.session = session
        self._models = models
        self._expires_at = expires_at
        self._created_at = created_at
        self._resume = resume
        settings, self._problem = dialect.first_settings(models)
        self._settings = replace(settings, hears_ends=hears_ends)
        self._emitter = Emitter(session, dialect)
        self._conversation = Conversation(max_items)
        self._dialogue = Dialogue(
            self._settings,
            models,
            self._conversation,
            self._emitter,
            ids=ids,
            seeds=seeds,
            limits=limits or DialogueLimits(),
        )
        self._turns = Turns(
            self._settings,
            self._conversation,
            self._emitter,
            self._dialogue,
            ids=ids,
            max_turn_seconds=max_turn_seconds,
        )
        self._dialogue.turns = self._turns
        self._speakers = SessionSpeakers(session)
        self._silence = LongSilence()
        self._ids = ids
        self._event_id: str | None = None  # of the last command, for errors about it
        self._checked: Checked | None = None  # what waits until its media are loaded
        self._told_deaf = False
        self._is_finishing = False
        self._last_words: tuple[ProtocolError, Close] | None = None  # once what is open is said

    @property
    def settings(self) -> SessionSettings:
        """As they are now."""
        return self._settings

    @property
    def pending_turns(self) -> int:
        """Committed turns whose transcript is not known yet, and comes whatever the client does
        next."""
        return 0 if self._turns.is_held_up else self._turns.pending

    @property
    def turns_committed(self) -> int:
        """Since the session began."""
        return self._turns.turns_committed

    @property
    def seconds_heard(self) -> float:
        """Of audio, since the session began."""
        return self._turns.seconds_heard

    @property
    def can_hear(self) -> bool:
        """Whether any served model transcribes; else audio is refused, not heard."""
        return self._settings.model is not None

    @property
    def is_idle(self) -> bool:
        """Nothing is under way: no turn is open or waits for its text, no response is made."""
        return not self._turns.is_open and self._is_quiet

    @property
    def _is_quiet(self) -> bool:
        return not self._turns.pending and not self.responses_open

    @property
    def responses_open(self) -> int:
        """How many are made."""
        return len(self._dialogue.responses)

    # --- inputs ----------------------------------------------------------------------------------

    def start(self) -> list[Output]:
        """The socket is open. What its URL asked for and cannot be had is an error."""
        self._emitter.put(UseModel(self._settings.main_model))
        self._tune()
        self._show(events.SessionCreated, self._resume)
        if self._problem is not None:
            self._emitter.refuse(self._problem)
        return self._take()

    def speak(self, dialect: Dialect) -> list[Output]:
        """Instead of the first command: the client turned out to speak this one, and begins with
        its settings."""
        self._emitter.dialect = dialect
        settings, problem = dialect.first_settings(self._models)
        self._settings = replace(settings, hears_ends=self._settings.hears_ends)
        self._emitter.put(UseModel(self._settings.main_model))
        self._take_over_settings()
        if problem is not None:
            self._emitter.refuse(problem)
        return self._take()

    def receive(self, command: commands.ClientCommand, *, now: float) -> list[Output]:
        """A command other than an append, whose audio comes through `hear`."""
        assert self._checked is None, "the media of the command before are not there yet"
        self._event_id = command.event_id
        try:
            self._receive(command, now)
        except ProtocolError as problem:
            self._emitter.refuse(problem, self._event_id)
        return self._take()

    def _receive(self, command: commands.ClientCommand, now: float) -> None:
        match command:
            case commands.Configure():
                self._configure(command)
            case commands.Commit():
                self._turns.commit_by_hand(now)
            case commands.Clear():
                self._turns.clear()
            case commands.Finish():
                self._turns.finish(now)
                self._is_finishing = True
            case commands.RetrieveItem():
                item = self._conversation.get(command.item_id)
                if item is None:
                    raise no_item(command.item_id)
                self._emitter.send(events.ItemRetrieved(item))
            case commands.DeleteItem():
                self._dialogue.delete(command)
            case commands.ClearOutput():
                pass  # nothing is ever played
            case commands.Append():
                raise AssertionError("audio is heard, not received")
            case _ if self._settings.converse is None:
                raise no_conversation(command)
            case commands.CreateItem():
                self._carry_out(self._dialogue.check_item(command), now)
            case commands.TruncateItem():
                self._dialogue.truncate(command)
            case commands.CreateResponse():
                self._carry_out(self._dialogue.check_response(command), now)
            case commands.CancelResponse():
                self._dialogue.cancel_response(command)
            case commands.AppendFrame():
                self._carry_out(self._dialogue.check_frame(command), now)
            case commands.ClearFrames():
                self._dialogue.clear_frames()
            case _:
                assert_never(command)

    def _carry_out(self, checked: Checked | None, now: float) -> None:
        if checked is not None and checked.requests:
            self._checked = checked
        elif checked is not None:
            checked.carry_out({}, now)

    @property
    def requests(self) -> Sequence[MediaRequest]:
        """What the last command waits for; nothing if it was refused, or is done."""
        return self._checked.requests if self._checked is not None else ()

    def loaded(self, media: Media, *, now: float) -> list[Output]:
        """What was requested, by path."""
        checked, self._checked = self._checked, None
        assert checked is not None, "nothing was requested"
        try:
            checked.carry_out(media, now)
        except ProtocolError as problem:
            self._emitter.refuse(problem, self._event_id)
        return self._take()

    def not_loaded(self, problem: ProtocolError) -> list[Output]:
        """Something requested cannot be had: the command is given up."""
        self._checked = None
        self._emitter.refuse(problem, self._event_id)
        return self._take()

    def refuse(self, problem: ProtocolError) -> list[Output]:
        """A frame that was no usable event: tell the client, go on."""
        self._emitter.refuse(problem)
        return self._take()

    def refuse_audio(self, event_id: str | None) -> list[Output]:
        """Audio came and nobody hears it: told once."""
        if not self._told_deaf:
            self._told_deaf = True
            self._emitter.refuse(cannot_hear("audio"), event_id)
        return self._take()

    def hear(
        self, heard: Heard, *, now: float, event_id: str | None = None, is_rest: bool = False
    ) -> list[Output]:
        """The next samples of the session. event_id: of the append they came with. is_rest: see
        `Turns.hear`."""
        assert self.can_hear
        if (submit := self._speakers.hear(self._settings.diariser, heard.samples)) is not None:
            self._emitter.put(submit)
        if self._settings.packing is not None:
            seconds = self.seconds_heard + len(heard.samples) / SAMPLE_RATE
            self._emitter.send(events.AudioUnpacked(seconds))
        self._turns.hear(heard, now=now, event_id=event_id, is_rest=is_rest)
        self._break_silence()
        return self._take()

    def _break_silence(self) -> None:
        """Where nobody speaks for long behind an answer, another one comes unasked."""
        is_waiting = self.is_idle and self._checked is None and self._conversation.is_answered
        end = self._turns.end
        since = self._silence.hear(end, self._settings.idle_timeout_ms if is_waiting else None)
        if since is None:
            return
        item = Item(self._ids("item"), content=[AudioContent("")])
        self._dialogue.add_item(item)
        previous = self._conversation.before(item)
        self._emitter.send(
            events.NobodySpoke(item, previous, milliseconds(since), milliseconds(end))
        )
        seconds = (end - since) / SAMPLE_RATE
        self._emitter.send(events.TranscriptDone(item.id, 0, "", seconds, None, None))
        self._dialogue.answer()

    def wants_sound(self, heard: Heard) -> bool:
        """Of what is to be heard next: whether it matters how the turn sounds at its pause."""
        return self._turns.wants_sound(heard)

    def engine(self, event: Event, *, now: float) -> list[Output]:
        """An event of the engine. About what was cleared or cancelled meanwhile: ignored."""
        match event:
            case TextCommitted() | TextProvisional() | TurnCompleted() | TurnFailed():
                self._turns.engine(event, now)
            case SpeakersHeard() | DiarisingFailed():
                self._emitter.send(self._speakers.engine(event))
            case AnswerStarted() | AnswerText() | AnswerCall() | AnswerCompleted() | AnswerFailed():
                self._dialogue.responses.engine(event)
            case EngineFailed():
                problem = engine_stopped(event)
                self._dialogue.responses.fail_all(problem)
                self._emitter.refuse(problem)
                self._emitter.put(Close(1012, "engine restart"))
                return self._emitter.take()  # and nothing new is begun
            case _:
                pass
        return self._take()

    # --- the end of the server -------------------------------------------------------------------

    def warn(self, seconds: float) -> list[Output]:
        """The server ends in so many seconds: told to a client that knows our extensions."""
        if self._settings.extended:
            self._emitter.send(events.GoingAway(seconds))
        return self._take()

    def depart(
        self, why: ProtocolError | None = None, close: Close = SHUT_DOWN, *, now: float
    ) -> list[Output]:
        """The session ends, though not for its client: what is open is committed, and once all is
        said, so is the reason. None: it ends with its server. Nothing must come to `hear` or
        `receive` any more."""
        self._turns.end_open(now)
        self._last_words = why or going_away(), close
        return self._take()

    # --- settings --------------------------------------------------------------------------------

    def know(self, models: Sequence[ModelCard]) -> None:
        """What is served now, adapters that came included. What is chosen stays known: of its end
        it hears when it asks."""
        served = {card.id for card in models}
        converse = self._settings.converse
        chosen = {self._settings.model, converse and converse.model} - served
        self._models = [*models, *(card for card in self._models if card.id in chosen)]

    def _configure(self, command: commands.Configure) -> None:
        old = self._settings
        new = command.change(old, self._models)
        if new.converse is None and len(self._dialogue.responses):
            raise still_answering()
        self._settings = new
        if new.main_model != old.main_model:
            self._emitter.put(UseModel(new.main_model))
        self._take_over_settings(told=True)

    def _take_over_settings(self, *, told: bool = False) -> None:
        self._tune()
        if told:
            self._show(events.SessionUpdated)
        self._dialogue.tune(self._settings, self._models)
        self._turns.tune(self._settings)

    def _show(
        self, event: type[events.SessionCreated], resume: events.ResumeOffer | None = None
    ) -> None:
        """Tell the client all of the settings."""
        settings = self._settings
        chosen = (settings.model, settings.converse and settings.converse.model)
        toys = tuple(card.id for card in self._models if card.toy and card.id in chosen)
        times = (self._expires_at, self._created_at)
        self._emitter.send(event(self.session, settings, *times, toys, resume))

    def _tune(self) -> None:
        self._emitter.put(Tune(self._settings.format, self._settings.vad()))

    def _take(self) -> list[Output]:
        checked = self._checked
        self._dialogue.settle(is_reserved=checked is not None and checked.reserves)
        if self._is_finishing and self._is_quiet:
            self._is_finishing, self._last_words = False, None
            self._emitter.send(events.SessionFinished(self.seconds_heard))
            self._emitter.put(Close(1000, ""))
        if self._last_words is not None and self._is_quiet:
            (why, close), self._last_words = self._last_words, None
            self._emitter.refuse(why)
            self._emitter.put(close)
        return self._emitter.take()
