"""The Realtime session as a pure state machine: no sockets, no clocks, no threads.

In go client events, heard audio and engine events; out come `Output`s, in order. Ids come from the
injected factory and time from the arguments, so the same script always gives the same frames.
Order of the calls is the order of the client's frames: all audio before a commit has been passed
to `hear` when the commit is passed to `receive`.

A transcription session: with server_vad a turn opens when speech starts (padding included) and is
committed when it stops; with turn_detection null it opens with the first appended audio and is
committed by the client. Either way the engine gets the audio as it comes and text flows back
while the person speaks, under the id of the future item.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, assert_never

from engine.messages import (
    SAMPLE_RATE,
    AppendAudio,
    CancelTurn,
    EndTurn,
    EngineFailed,
    Event,
    ModelCard,
    StartTurn,
    TextCommitted,
    TextProvisional,
    TurnCompleted,
    TurnFailed,
)
from gateway.realtime import server_events as wire
from gateway.realtime.conversation import Conversation, Item
from gateway.realtime.events import (
    Append,
    Clear,
    ClientEvent,
    Commit,
    Conversational,
    ItemDelete,
    ItemRetrieve,
    ProtocolError,
    SessionUpdate,
)
from gateway.realtime.hearing import Heard
from gateway.realtime.outputs import (
    Close,
    EndListening,
    Output,
    Send,
    Submit,
    Tune,
    TurnFinished,
    UseModel,
)
from gateway.realtime.refusals import (
    conversational,
    empty_commit,
    engine_stopped,
    no_item,
    too_long,
    turn_refused,
)
from gateway.realtime.settings import SessionSettings, find_model
from gateway.realtime.turns import RecentAudio, Turn, pieces
from media.vad import SpeechStarted

# A turn begins up to the prefix padding before its first voiced window, which the detector reports
# some windows later. This much more than the padding is kept.
DETECTION_SECONDS = 0.5
PIECE_SECONDS = 30.0  # longest piece of audio in one message to the engine

IdFactory = Callable[[str], str]
"""Makes a fresh id from a prefix: "item" -> "item_4f…"."""


class RealtimeProtocol:
    """One transcription session. Every method returns what is to be done, in order."""

    def __init__(
        self,
        *,
        session: str,
        models: Sequence[ModelCard],
        requested_model: str | None,
        ids: IdFactory,
        max_turn_seconds: float,
        max_items: int,
        expires_at: int | None = None,
    ) -> None:
        assert models, "an engine serves at least one model"
        self.session = session
        self.turns_committed = 0
        self.seconds_heard = 0.0
        self._models = models
        self._requested_model = requested_model
        self._ids = ids
        self._max_turn = int(max_turn_seconds * SAMPLE_RATE)
        self._expires_at = expires_at
        self._conversation = Conversation(max_items)
        self._settings = SessionSettings(model=models[0].id)
        self._recent = RecentAudio()
        self._voiced_until = 0  # end of the last window with speech, on the session's clock
        self._speaking = False  # the detector's view, also while turn_detection is null
        self._floor = 0  # no turn may begin before this sample: it was committed or cleared
        self._turn: Turn | None = None  # the open one
        self._turns: dict[str, Turn] = {}  # all that the engine knows, by item id
        self._out: list[Output] = []

    @property
    def settings(self) -> SessionSettings:
        return self._settings

    @property
    def pending_turns(self) -> int:
        """Committed turns whose transcript is not known yet."""
        return len(self._turns) - (self._turn is not None)

    # --- inputs ----------------------------------------------------------------------------------

    def start(self) -> list[Output]:
        """The socket is open. A model asked for in the URL that is not served is an error."""
        problem = None
        if self._requested_model is not None:
            try:
                card = find_model(self._requested_model, self._models, "model", None)
                self._settings = SessionSettings(model=card.id)
            except ProtocolError as error:
                problem = error
        self._out.append(UseModel(self._settings.model))
        self._tune()
        self._send(wire.session_created(self._session_on_wire()))
        if problem is not None:
            self._send(wire.error(problem))
        return self._take()

    def receive(self, event: ClientEvent, *, now: float) -> list[Output]:
        """A client event other than an append, whose audio comes through `hear`."""
        try:
            match event:
                case SessionUpdate():
                    self._update(event)
                case Commit():
                    self._commit_by_hand(event, now)
                case Clear():
                    self._clear()
                case ItemRetrieve():
                    item = self._conversation.get(event.item_id)
                    if item is None:
                        raise no_item(event)
                    self._send(wire.item_retrieved(item.on_wire()))
                case ItemDelete():
                    if not self._conversation.delete(event.item_id):
                        raise no_item(event)
                    self._send(wire.item_deleted(event.item_id))
                case Conversational():
                    if event.type != "output_audio_buffer.clear":  # nothing is ever played
                        raise conversational(event)
                case Append():
                    raise AssertionError("audio is heard, not received")
                case _:
                    assert_never(event)
        except ProtocolError as problem:
            self._send(wire.error(problem))
        return self._take()

    def refuse(self, problem: ProtocolError) -> list[Output]:
        """A frame that was no usable event: tell the client, go on."""
        self._send(wire.error(problem))
        return self._take()

    def hear(self, heard: Heard, *, now: float, event_id: str | None = None) -> list[Output]:
        """The next samples of the session. event_id: of the append they came with."""
        self._recent.append(heard.samples)
        self.seconds_heard += len(heard.samples) / SAMPLE_RATE
        self._voiced_until = heard.voiced_until
        if self._settings.turn_detection is None:
            if self._turn is None and len(heard.samples):
                self._open(max(self._recent.start, self._floor))
        else:
            for event in heard.events:
                if isinstance(event, SpeechStarted):
                    self._speech_started(event.sample)
                elif self._turn is not None:
                    self._feed(self._turn, event.sample, now, event_id)
                    self._commit(event.sample, now)
        self._speaking = heard.speaking
        if self._turn is not None:
            self._feed(self._turn, self._recent.end, now, event_id)
        self._forget_old_audio()
        return self._take()

    def engine(self, event: Event, *, now: float) -> list[Output]:
        """An event of the engine. About a turn that was cleared meanwhile: ignored."""
        match event:
            case TextCommitted() if event.turn in self._turns:
                self._text(self._turns[event.turn], event)
            case TextProvisional() if event.turn in self._turns:
                if self._turns[event.turn].settings.provisional:
                    self._send(wire.provisional(event.turn, event.text))
            case TurnCompleted() if event.turn in self._turns:
                self._completed(self._turns[event.turn], event, now)
            case TurnFailed() if event.turn in self._turns:
                turn = self._turns[event.turn]
                turn.failure = event
                if turn.committed_at is not None:
                    self._failed(turn, event)
            case EngineFailed():
                self._send(wire.error(engine_stopped(event)))
                self._out.append(Close(1012, "engine restart"))
            case _:
                pass
        return self._take()

    # --- audio -----------------------------------------------------------------------------------

    def _speech_started(self, sample: int) -> None:
        if self._turn is None:
            self._open(max(sample, self._recent.start, self._floor))
        turn = self._turn
        assert turn is not None
        if not turn.announced:  # a turn left open by manual mode is announced late
            turn.announced = True
            self._send(wire.speech_started(turn.item, _milliseconds(turn.start)))

    def _open(self, start: int) -> None:
        turn = Turn(self._ids("item"), start, self._settings)
        self._turn = self._turns[turn.item] = turn
        self._submit(StartTurn(self.session, turn.item, turn.settings.transcription()))

    def _feed(self, turn: Turn, upto: int, now: float, event_id: str | None) -> None:
        """Give the engine the turn's audio up to session sample `upto`, within the limit."""
        if turn.overflowed:
            return
        while turn.length + upto - turn.end > self._max_turn:
            self._give(turn, turn.start + self._max_turn)
            if not turn.announced:  # the client's to commit: keep what there is, refuse more
                turn.overflowed = True
                self._send(wire.error(too_long(self._max_turn / SAMPLE_RATE, event_id)))
                return
            # Speech that never pauses: cut it here and go on in a new turn, losing nothing.
            cut = turn.end
            self._commit(cut, now)
            self._speech_started(cut)
            assert self._turn is not None
            turn = self._turn
        self._give(turn, upto)

    def _give(self, turn: Turn, upto: int) -> None:
        samples = self._recent.slice(turn.end, max(upto, turn.end))
        for piece in pieces(samples, int(PIECE_SECONDS * SAMPLE_RATE)):
            turn.length += len(piece)
            voiced = min(max(self._voiced_until - turn.start, turn.voiced_until), turn.length)
            turn.voiced_until = max(voiced, 0)
            if turn.failure is None:
                self._submit(AppendAudio(self.session, turn.item, piece, turn.voiced_until))

    def _forget_old_audio(self) -> None:
        end = self._recent.end
        if self._turn is not None:
            self._recent.keep_from(end)
            return
        padding = self._settings.vad().prefix_padding_ms / 1000 + DETECTION_SECONDS
        self._recent.keep_from(max(end - int(padding * SAMPLE_RATE), min(self._floor, end)))

    # --- commit and clear ------------------------------------------------------------------------

    def _commit_by_hand(self, event: Commit, now: float) -> None:
        if self._turn is None:
            # No speech was found since the last turn, but a word may just have begun.
            start = max(self._recent.start, self._floor)
            if start < self._recent.end:
                self._open(start)
                assert self._turn is not None
                self._give(self._turn, self._recent.end)
        if self._turn is None or self._turn.length == 0:
            raise empty_commit(event)
        self._commit(self._recent.end, now)
        self._end_listening()

    def _commit(self, end: int, now: float) -> None:
        """The open turn becomes an item."""
        turn, self._turn = self._turn, None
        assert turn is not None
        turn.committed_at = now
        self._floor = max(self._floor, turn.end)
        if turn.announced:
            self._send(wire.speech_stopped(turn.item, _milliseconds(end)))
        if turn.failure is None:
            self._submit(EndTurn(self.session, turn.item))
        item, previous = Item(turn.item), self._conversation.last_id
        self._conversation.add(item)
        self._send(wire.committed(item.id, previous))
        self._send(wire.item_added(item.on_wire(), previous))
        self._send(wire.item_done(item.on_wire(), previous))
        self.turns_committed += 1
        if turn.failure is not None:
            self._failed(turn, turn.failure)

    def _clear(self) -> None:
        if self._turn is not None:
            if self._turn.failure is None:
                self._submit(CancelTurn(self.session, self._turn.item))
            del self._turns[self._turn.item]
            self._turn = None
        self._end_listening()
        self._send(wire.cleared())

    def _end_listening(self) -> None:
        self._floor = self._recent.end
        self._recent.keep_from(self._floor)
        self._speaking = False
        self._out.append(EndListening())

    # --- text ------------------------------------------------------------------------------------

    def _text(self, turn: Turn, event: TextCommitted) -> None:
        wanted = turn.settings.logprobs
        if event.text:
            turn.text.append(event.text)
            logprobs = event.logprobs or []
            if wanted:
                turn.logprobs.extend(logprobs)
            self._send(
                wire.transcription_delta(turn.item, event.text, logprobs if wanted else None)
            )
        if event.words and turn.settings.words:
            self._send(wire.words(turn.item, event.words))

    def _completed(self, turn: Turn, event: TurnCompleted, now: float) -> None:
        transcript = "".join(turn.text)
        assert transcript == event.text, (transcript, event.text)
        assert turn.committed_at is not None, "the engine completed a turn that was not ended"
        del self._turns[turn.item]
        item = self._conversation.get(turn.item)
        if item is not None:
            item.transcript = transcript
        self._send(
            wire.transcription_completed(
                turn.item,
                transcript,
                turn.seconds,
                event.language,
                turn.logprobs if turn.settings.logprobs else None,
            )
        )
        self._out.append(TurnFinished(turn.item, turn.seconds, now - turn.committed_at))

    def _failed(self, turn: Turn, failure: TurnFailed) -> None:
        del self._turns[turn.item]
        self._send(wire.transcription_failed(turn.item, turn_refused(failure)))
        self._out.append(TurnFinished(turn.item, turn.seconds, None))

    # --- settings and errors ---------------------------------------------------------------------

    def _update(self, event: SessionUpdate) -> None:
        old, was_manual = self._settings, self._settings.turn_detection is None
        self._settings = old.merged(event.session, self._models, event.event_id)
        if self._settings.model != old.model:
            self._out.append(UseModel(self._settings.model))
        self._tune()
        self._send(wire.session_updated(self._session_on_wire()))
        # Switched on in mid-speech: the open turn goes on, and is announced now so that the
        # coming speech_stopped has its speech_started.
        if was_manual and self._settings.turn_detection is not None:
            if self._turn is not None and self._speaking:
                self._speech_started(self._turn.start)

    def _tune(self) -> None:
        self._out.append(Tune(self._settings.format, self._settings.vad()))

    def _session_on_wire(self) -> dict[str, Any]:
        return self._settings.on_wire(self.session, self._expires_at)

    def _send(self, event: dict[str, Any]) -> None:
        # type and event_id first: it is what a person looks for in a log of frames.
        head = {"type": event["type"], "event_id": self._ids("event")}
        self._out.append(Send({**head, **event}))

    def _submit(self, message: StartTurn | AppendAudio | EndTurn | CancelTurn) -> None:
        self._out.append(Submit(message))

    def _take(self) -> list[Output]:
        out, self._out = self._out, []
        return out


def _milliseconds(sample: int) -> int:
    return sample * 1000 // SAMPLE_RATE
