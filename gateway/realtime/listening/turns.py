"""Speech in a session: heard audio becomes turns, turns become items with transcripts.

With voice detection a turn opens when speech starts (padding included) and is committed when it
stops; with turn_detection null it opens with the first appended audio and is committed by the
client. Either way the engine gets the audio as it comes and text flows back while the person
speaks, under the id of the future item.
"""

from __future__ import annotations

import contextlib

from lookhear.engine.messages import (
    SAMPLE_RATE,
    AppendAudio,
    CancelTurn,
    EndTurn,
    StartTurn,
    TextCommitted,
    TextProvisional,
    TurnCompleted,
    TurnFailed,
)
from lookhear.gateway.checks.checks import ProtocolError
from lookhear.gateway.realtime.listening.audio_intake import Heard
from lookhear.gateway.realtime.listening.pauses import Pauses
from lookhear.gateway.realtime.listening.turn import (
    Listener,
    RecentAudio,
    Samples,
    Turn,
    milliseconds,
)
from lookhear.gateway.realtime.listening.under_way import UnderWay
from lookhear.gateway.realtime.pictures.media_requests import Recording
from lookhear.gateway.realtime.protocol import events
from lookhear.gateway.realtime.protocol.conversation import AudioContent, Conversation, Item
from lookhear.gateway.realtime.protocol.outputs import Emitter, ResetIntake, TurnFinished
from lookhear.gateway.realtime.protocol.refusals import (
    NO_PLACE,
    empty_commit,
    too_long,
    turn_refused,
)
from lookhear.gateway.realtime.settings import SessionSettings
from lookhear.gateway.telemetry.ids import IdFactory
from lookhear.media.voice.vad import SpeechPaused, SpeechStarted, SpeechStopped

# A turn begins up to the prefix padding before its first voiced window, which the detector reports
# some windows later. This much more than the padding is kept.
DETECTION_SECONDS = 0.5
PIECE = 30 * SAMPLE_RATE  # samples: longest piece of audio in one message to the engine


class Turns(UnderWay):
    """The turns of one session."""

    def __init__(
        self,
        settings: SessionSettings,
        conversation: Conversation,
        emitter: Emitter,
        listener: Listener,
        *,
        ids: IdFactory,
        max_turn_seconds: float,
    ) -> None:
        super().__init__()
        self.turns_committed = 0
        self.seconds_heard = 0.0
        self._settings = settings
        self._conversation = conversation
        self._emitter = emitter
        self._listener = listener
        self._ids = ids
        self._max_turn = int(max_turn_seconds * SAMPLE_RATE)
        self._recent = RecentAudio()
        self._voiced_until = 0  # end of the last window with speech, on the session's clock
        self._silent_since = 0  # the last silence that the client was told of
        self._speaking = False  # the detector's view, also while turn_detection is null
        self._floor = 0  # no turn may begin before this sample: it was committed or cleared
        self._pauses = Pauses()

    @property
    def end(self) -> int:
        """Where the audio that came ends, in samples on the session's clock."""
        return self._recent.end

    def tune(self, settings: SessionSettings) -> None:
        """Settings for the turns to come; whether the voice is detected applies at once."""
        was_manual, self._settings = self._settings.turn_detection is None, settings
        # Switched on in mid-speech: the open turn goes on, and is announced now so that the
        # coming speech_stopped has its speech_started.
        if was_manual and settings.turn_detection is not None:
            if self._turn is not None and self._speaking:
                self._speech_started(self._turn.start)

    # --- audio -----------------------------------------------------------------------------------

    def hear(
        self, heard: Heard, *, now: float, event_id: str | None, is_rest: bool = False
    ) -> None:
        """The next samples of the session. event_id: of the append they came with. is_rest: they
        came before, and nothing else does before a commit."""
        # Whoever commits right behind a switch to voice detection means all that came before it.
        has_come = len(heard.samples) > 0 and not is_rest
        if has_come:
            self._end_left_open(now)
        self._recent.append(heard.samples)
        self.seconds_heard += len(heard.samples) / SAMPLE_RATE
        for event in heard.events:
            if isinstance(event, SpeechStarted):
                self._fall_silent(event.sample)
        self._voiced_until = heard.voiced_until
        speaking = heard.speaking
        if self._settings.turn_detection is None:
            if self._turn is None and len(heard.samples):
                self._open(max(self._recent.start, self._floor))
        else:
            for event in heard.events:
                if isinstance(event, SpeechStarted):
                    self._speech_started(event.sample)
                elif self._turn is not None and self._is_over(event, heard.over):
                    self._feed(self._turn, event.sample, now, event_id)
                    is_pause = isinstance(event, SpeechPaused)
                    self._commit(event.sample, now, by_voice=True, judged=is_pause)
                    if is_pause:
                        speaking = False
                        self._emitter.put(ResetIntake(event.sample))
        self._speaking = speaking
        if self._turn is not None:
            self._feed(self._turn, self._recent.end, now, event_id)
        if has_come:
            self._end_left_open(now)
        if self._turn is not None:
            self._guess(self._turn)
        self._fall_silent(self._recent.end)
        self._forget_old_audio()

    def _end_left_open(self, now: float) -> None:
        """A turn that was open when the detector was switched on, and in which nobody speaks just
        now, is one whose end the detector will not tell: it is over after a silence. Where nobody
        has spoken in it yet there is none: the next one begins where somebody does."""
        turn, detection = self._turn, self._settings.turn_detection
        if turn is None or detection is None or self._speaking:
            return
        if turn.voiced_until == 0 and not turn.announced and not turn.text:
            self._drop(turn)
            return
        silence = self._recent.end - max(self._voiced_until, turn.start)
        if milliseconds(silence) >= self._settings.vad().silence_duration_ms:
            self._announce(turn)  # late, and nobody speaks: it interrupts no answer
            self._commit(self._recent.end, now, by_voice=True)

    def wants_sound(self, heard: Heard) -> bool:
        """Whether it matters, at the pause that this ends in, how the turn sounds."""
        turn, pause, patience = self._turn, heard.pause, self._settings.patience
        if turn is None or not turn.announced or pause is None:
            return False
        return self._pauses.wants_sound(turn, pause.milliseconds, heard.voiced_until, patience)

    def _fall_silent(self, upto: int) -> None:
        """Tell it once in a silence that lasts up to there, if the client wants to know."""
        most, since = self._settings.silence_ms, self._voiced_until
        if most is not None and since > self._silent_since and milliseconds(upto - since) >= most:
            self._silent_since = since
            self._emitter.send(events.FellSilent(milliseconds(since)))

    def _is_over(self, event: SpeechStopped | SpeechPaused, over: float | None) -> bool:
        if isinstance(event, SpeechStopped):
            return True
        turn, patience = self._turn, self._settings.patience
        if turn is None or not turn.announced:
            return False
        turn.sound = over
        return self._pauses.is_over(turn, event.milliseconds, self._voiced_until, patience)

    def _guess(self, turn: Turn) -> None:
        """Whether the open turn is probably over, as far as it is heard."""
        pause_ms = milliseconds(self._recent.end - max(self._voiced_until, turn.start))
        if pause_ms == 0:
            turn.sound = None  # it was another pause's
        voiced, patience = self._voiced_until, self._settings.patience
        turn.guess = self._pauses.guess(turn, pause_ms, voiced, patience)
        turn.over = self._pauses.over(turn, voiced)

    def _speech_started(self, sample: int) -> None:
        if self._turn is None:
            self._open(max(sample, self._recent.start, self._floor))
        turn = self._turn
        assert turn is not None
        if self._announce(turn):  # a turn left open by manual mode is announced late
            self._listener.on_speech()

    def _announce(self, turn: Turn) -> bool:
        """Tell the client where somebody began to speak, if it was not told."""
        if turn.announced:
            return False
        turn.announced = True
        self._emitter.send(events.SpeakingStarted(turn.item, milliseconds(turn.start)))
        return True

    def _open(self, start: int) -> None:
        kept: list[Samples] | None = [] if self._listener.keeps_sound else None
        self._turn = Turn(self._ids("item"), start, self._settings, kept=kept)
        self._start(self._turn)

    def _start(self, turn: Turn) -> None:
        self._turns[turn.name] = turn
        settings = turn.settings.transcription()
        self._emitter.submit(StartTurn(self._emitter.session, turn.name, settings))

    def _feed(self, turn: Turn, upto: int, now: float, event_id: str | None) -> None:
        """Give the engine the turn's audio up to session sample `upto`, within the limit."""
        if turn.overflowed:
            return
        while turn.length + upto - turn.end > self._max_turn:
            self._give(turn, turn.start + self._max_turn)
            if not turn.announced:  # the client's to commit: keep what there is, refuse more
                turn.overflowed = True
                self._emitter.refuse(too_long(self._max_turn / SAMPLE_RATE), event_id)
                return
            # Speech that never pauses: cut it here and go on in a new turn, losing nothing.
            cut = turn.end
            self._commit(cut, now, by_voice=True)
            self._speech_started(cut)
            assert self._turn is not None
            turn = self._turn
        self._give(turn, upto)

    def _give(self, turn: Turn, upto: int) -> None:
        self._pass_on(turn, self._recent.slice(turn.end, max(upto, turn.end)), self._voiced_until)

    def _pass_on(self, turn: Turn, samples: Samples, voiced_until: int) -> None:
        """voiced_until: on the clock that the turn's start is on."""
        for start in range(0, len(samples), PIECE):
            piece = samples[start : start + PIECE]
            turn.length += len(piece)
            turn.keep(piece)
            voiced = min(max(voiced_until - turn.start, turn.voiced_until), turn.length)
            turn.voiced_until = max(voiced, 0)
            if turn.failure is None:
                self._emitter.submit(
                    AppendAudio(self._emitter.session, turn.name, piece, turn.voiced_until)
                )

    def _forget_old_audio(self) -> None:
        end = self._recent.end
        padding = self._settings.vad().prefix_padding_ms / 1000 + DETECTION_SECONDS
        self._recent.keep_from(max(end - int(padding * SAMPLE_RATE), min(self._floor, end)))

    def transcribe(self, item: Item, content_index: int, recording: Recording, now: float) -> None:
        """The audio of an item that the client made: a turn of its own, complete at once."""
        turn = Turn(item.id, 0, self._settings, content_index, self._ids("turn"), committed_at=now)
        part = item.content[content_index]
        assert isinstance(part, AudioContent), part
        turn.part = part
        self._start(turn)
        self._pass_on(turn, recording.samples, recording.voiced_until)
        self._emitter.submit(EndTurn(self._emitter.session, turn.name))
        self.turns_committed += 1

    # --- commit and clear ------------------------------------------------------------------------

    def commit_by_hand(self, now: float) -> None:
        """Raises ProtocolError if there is nothing to commit."""
        if self._turn is None and self._settings.model is not None:
            # No speech was found since the last turn, but a word may just have begun.
            start = max(self._recent.start, self._floor)
            if start < self._recent.end:
                self._open(start)
                assert self._turn is not None
                self._give(self._turn, self._recent.end)
        if self._turn is None or self._turn.length == 0:
            raise empty_commit()
        self._commit(self._recent.end, now, by_voice=False)
        self._end_listening()

    def finish(self, now: float) -> None:
        """Commit what there is, if anything."""
        with contextlib.suppress(ProtocolError):
            self.commit_by_hand(now)

    def end_open(self, now: float) -> None:
        """The open turn, if there is one, ends here as by a commit."""
        if self._turn is not None and self._turn.length:
            self._commit(self._recent.end, now, by_voice=False)
            self._end_listening()

    def _commit(self, end: int, now: float, *, by_voice: bool, judged: bool = False) -> None:
        """The open turn becomes an item. judged: before the silence was as long as it may be."""
        turn, self._turn = self._turn, None
        assert turn is not None
        turn.committed_at = now
        detection = self._settings.turn_detection
        turn.wants_answer = by_voice and detection is not None and detection.create_response
        self._floor = max(self._floor, turn.end)
        if turn.announced:
            self._emitter.send(events.SpeakingStopped(turn.item, milliseconds(max(end, turn.end))))
        if turn.failure is None:
            self._emitter.submit(EndTurn(self._emitter.session, turn.name))
        turn.part = AudioContent(spoken=turn.spoken)
        item, previous = Item(turn.item, content=[turn.part]), self._conversation.last_id
        self._listener.add_item(item)
        over = self._pauses.over(turn, self._voiced_until)
        place = turn.start / SAMPLE_RATE, turn.seconds
        self._emitter.send(events.TurnCommitted(item, previous, *place, by_voice, over, judged))
        self.turns_committed += 1
        if turn.failure is not None:
            self._failed(turn, turn.failure)

    def clear(self) -> None:
        """Forget the open turn."""
        if self._turn is not None:
            self._drop(self._turn)
        self._end_listening()
        self._emitter.send(events.AudioCleared())

    def _drop(self, turn: Turn) -> None:
        """Forget it, the open one."""
        if turn.failure is None:
            self._emitter.submit(CancelTurn(self._emitter.session, turn.name))
        del self._turns[turn.name]
        self._turn = None

    def _end_listening(self) -> None:
        self._floor = self._recent.end
        self._recent.keep_from(self._floor)
        self._speaking = False
        self._emitter.put(ResetIntake())

    # --- text ------------------------------------------------------------------------------------

    def engine(
        self, event: TextCommitted | TextProvisional | TurnCompleted | TurnFailed, now: float
    ) -> None:
        """About a turn that was cleared meanwhile: ignored."""
        turn = self._turns.get(event.turn)
        if turn is None:
            return
        match event:
            case TextCommitted():
                self._text(turn, event)
                if turn is self._turn:
                    self._guess(turn)
            case TextProvisional():
                turn.hear(event)
                if turn.settings.provisional and turn.shown != event.text:
                    turn.shown = event.text
                    self._emitter.send(events.TranscriptProvisional(*turn.place, event.text))
                if turn is self._turn:
                    self._guess(turn)
            case TurnCompleted():
                self._completed(turn, event, now)
            case TurnFailed():
                turn.failure = event
                if turn.committed_at is not None:
                    self._failed(turn, event)
                elif event.code == NO_PLACE:  # nothing will come of it, so why wait for its end
                    self._emitter.refuse(turn_refused(event))

    def _text(self, turn: Turn, event: TextCommitted) -> None:
        if event.text:
            turn.text.append(event.text)
            turn.characters += len(event.text)
            turn.provisional = turn.provisional.removeprefix(event.text)
            told = None
            if turn.settings.logprobs:
                told = event.logprobs or []
                turn.logprobs.extend(told)
            self._emitter.send(events.TranscriptDelta(*turn.place, event.text, told))
        if event.words and turn.settings.times_words:
            self._emitter.send(events.TranscriptWords(*turn.place, event.words, turn.named_from))

    def _completed(self, turn: Turn, event: TurnCompleted, now: float) -> None:
        transcript = "".join(turn.text)
        assert transcript == event.text, (transcript, event.text)
        assert turn.committed_at is not None and turn.part is not None, "it was not ended"
        del self._turns[turn.name]
        self._pauses.read(transcript, now - turn.committed_at)
        turn.part.transcript = transcript
        logprobs = turn.logprobs if turn.settings.logprobs else None
        seconds, language = turn.seconds, event.language
        done = events.TranscriptDone(*turn.place, transcript, seconds, language, logprobs)
        self._emitter.send(done)
        self._emitter.put(TurnFinished(turn.item, turn.seconds, now - turn.committed_at))
        self._listener.on_settled(turn)

    def _failed(self, turn: Turn, failure: TurnFailed) -> None:
        assert turn.part is not None, "it was not ended"
        del self._turns[turn.name]
        turn.part.failed = True
        self._emitter.send(events.TranscriptFailed(*turn.place, turn_refused(failure)))
        self._emitter.put(TurnFinished(turn.item, turn.seconds, None))
        self._listener.on_settled(turn)
