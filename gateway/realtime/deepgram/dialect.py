"""Deepgram's live wire (`/v1/listen`): raw audio in, results that replace each other out."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from lookhear.engine.messages import ModelCard
from lookhear.gateway.checks.checks import ProtocolError, wrong
from lookhear.gateway.checks.models import diariser
from lookhear.gateway.deepgram import shapes
from lookhear.gateway.deepgram.options import LiveOptions, listener, live_options
from lookhear.gateway.http.notes import notes
from lookhear.gateway.realtime.deepgram.listen import ListenDialect
from lookhear.gateway.realtime.deepgram.messages import configure, read
from lookhear.gateway.realtime.deepgram.pieces import Turn
from lookhear.gateway.realtime.protocol import events
from lookhear.gateway.realtime.protocol.commands import Append, ClientCommand, Commit, Finish
from lookhear.gateway.realtime.protocol.dialect import Json
from lookhear.gateway.realtime.protocol.refusals import EMPTY_COMMIT
from lookhear.gateway.realtime.settings import SessionSettings, TurnDetection, default_settings
from lookhear.gateway.sockets.cutting import WireFrame
from lookhear.gateway.telemetry.ids import IdFactory
from lookhear.gateway.who_speaks import LiveSpeakers

SHORTEST_PAUSE_MS = 200  # that ends a turn: in shorter ones people draw breath
CHANNEL = [0, 1]  # the first of one


class DeepgramDialect(ListenDialect):
    """See `Dialect`. All that its clients set is in the URL, and cannot be had only at once."""

    path: ClassVar[str] = "/v1/listen"

    def __init__(self, query: Mapping[str, str], ids: IdFactory) -> None:
        super().__init__(query, ids)
        self._asked: tuple[LiveOptions, ModelCard] | None = None  # None: it cannot be had
        self._has_words = False  # whether deltas are followed by the times of their words
        self._speakers: LiveSpeakers | None = None
        self._created = 0.0
        self._sha256 = hashlib.sha256()  # of the audio so far
        self._turns: dict[str, Turn] = {}  # by item, in the order in which they began
        self._finalizes = 0  # that were asked for and not answered
        self._is_closing = False
        self._has_spoken = False  # text was told since the last UtteranceEnd
        self._silences: deque[float] = deque()  # where they began that wait for the text before

    def first_settings(
        self, models: Sequence[ModelCard]
    ) -> tuple[SessionSettings, ProtocolError | None]:
        """As the URL says."""
        settings, who = default_settings(models), diariser(models)
        try:
            options = live_options(self._query, diarises=who is not None)
            card = listener(options, models)
            if options.diarise and (lacks := card.untimed(options.language)) is not None:
                raise wrong("diarize", f"false, {lacks}", "true", "unsupported_parameter")
        except ProtocolError as problem:
            return settings, problem
        self._asked, self._audio = (options, card), options.audio
        self.headers = notes(card, options.ignored)
        self._speakers = LiveSpeakers() if options.diarise else None
        self._has_words = card.untimed(options.language) is None
        detection = TurnDetection()
        if options.endpointing is not None:
            pause = max(options.endpointing, SHORTEST_PAUSE_MS)
            detection = replace(detection, silence_duration_ms=pause)
        return (
            replace(
                self._hearing(settings),
                model=card.id,
                converse=None,
                language=options.language,
                languages=options.hints,
                keywords=options.keyterms,
                turn_detection=detection,
                provisional=options.interim,
                words=self._has_words,
                diariser=who.id if who is not None and options.diarise else None,
                logprobs=not self._has_words,
                silence_ms=options.utterance_end,
            ),
            None,
        )

    # --- what comes ------------------------------------------------------------------------------

    def parse(self, frame: WireFrame) -> Sequence[ClientCommand]:
        """Bytes are audio, none of them the end; text is a message."""
        if isinstance(frame, bytes) and frame:
            self._sha256.update(frame)
            self._bytes += len(frame)
            return (Append(frame),)
        message = read(frame) if isinstance(frame, str) else {"type": "CloseStream"}
        match message["type"]:
            case "Finalize":
                self._finalizes += 1
                return (Commit(name="Finalize"),)
            case "Configure":
                return (configure(message),)
            case "CloseStream":
                self._is_closing = True
                return (Finish(name="CloseStream"),)
            case _:  # KeepAlive: it came, and that is all
                return ()

    # --- what is told ----------------------------------------------------------------------------

    def render(self, event: events.SessionEvent) -> Sequence[Json]:
        """Of what there are no words for here, nothing is told."""
        match event:
            case events.SessionUpdated(settings=settings):
                told = {"request_id": self._request, "keyterms": list(settings.keywords)}
                return [{"type": "ConfigureSuccess", **told}]
            case events.SessionCreated(session, created_at=created):
                self._request, self._created = session, created
                return []
            case events.AudioUnpacked(seconds):
                self._unpacked = seconds
                return []
            case events.SpeakingStarted(item, milliseconds):
                return self._speech_started(item, milliseconds / 1000)
            case events.TurnCommitted():
                self._committed(event)
                return []
            case events.TranscriptDelta():
                return self._delta(event)
            case events.SpeakersKnown(heard):
                if self._speakers is not None:
                    self._speakers.hear(heard)
                return []
            case events.TranscriptWords(item, _, words):
                turn = self._turn(item)
                turn.hear(words)
                return self._interim(turn)
            case events.TranscriptProvisional(item, _, text):
                turn = self._turn(item)
                turn.guess = text
                return self._interim(turn)
            case events.TranscriptDone(item, language=language):
                return self._completed(item, language)
            case events.TranscriptFailed(item, problem=problem):
                return [_error(problem), *self._completed(item, None)]
            case events.FellSilent(milliseconds):
                self._silences.append(milliseconds / 1000)
                return self._utterance_ends()
            case events.Refused(problem) | events.SpeakersLost(problem):
                return self._refused(problem)
            case events.SessionFinished(seconds):
                return [self._metadata(seconds)]
            case _:
                return []

    # --- turns -----------------------------------------------------------------------------------

    def _turn(self, item: str) -> Turn:
        if item not in self._turns:  # not announced: it begins where the one before ended
            self._turns[item] = self._new_turn(self._next_start)
        return self._turns[item]

    def _new_turn(self, start: float) -> Turn:
        return Turn(start, start, speakers=self._speakers)

    def _speech_started(self, item: str, seconds: float) -> list[Json]:
        self._turns.setdefault(item, self._new_turn(self._begins(seconds)))
        is_wanted = self._asked is not None and self._asked[0].vad_events
        started = {"type": "SpeechStarted", "channel": [0], "timestamp": seconds}
        return [started] if is_wanted else []

    def _committed(self, event: events.TurnCommitted) -> None:
        turn = self._turn(event.item.id)
        turn.commit(event.start, event.seconds)
        self._next_start = event.start + event.seconds
        turn.by_voice = event.by_voice
        if not event.by_voice and self._finalizes:
            self._finalizes -= 1
            turn.from_finalize = True

    def _delta(self, event: events.TranscriptDelta) -> list[Json]:
        turn, came, told = self._turn(event.item), self._came, []
        if turn.is_full(event.text, came):
            told.append(self._told(turn.final(turn.said_until(came))))
        turn.add(event.text, event.logprobs)
        return told if self._has_words else [*told, *self._interim(turn)]  # they come next

    def _interim(self, turn: Turn) -> list[Json]:
        if self._asked is None or not self._asked[0].interim:
            return []
        result = turn.interim(self._came)
        return [] if result is None else [self._told(result)]

    def _completed(self, item: str, language: str | None) -> list[Json]:
        """The last piece of a turn."""
        turn = self._turn(item)
        # The end of the stream is one of speech, if there was any.
        is_last = self._is_closing and not turn.from_finalize and bool(turn.text.strip())
        is_told = self._asked is not None and self._asked[0].ends_speech
        end = turn.begin if turn.end is None else turn.end
        result = self._told(turn.final(end, speech_final=is_told and (turn.by_voice or is_last)))
        result["from_finalize"] = turn.from_finalize
        del self._turns[item]
        if language is not None and self._asked is not None and self._asked[0].tells_language:
            result["channel"]["alternatives"][0]["languages"] = [language]
        return [result, *self._utterance_ends()]

    def _utterance_ends(self) -> list[Json]:
        """Of each silence, once the text of all that was said before it is told. Of a turn that
        goes on, so far as it is known."""
        told: list[Json] = []
        while self._silences:
            since = self._silences[0]
            before = [turn for turn in self._turns.values() if turn.start < since]
            if any(turn.end is not None or not self._has_spoken for turn in before):
                break
            self._silences.popleft()
            if self._has_spoken:
                told.append({"type": "UtteranceEnd", "channel": CHANNEL, "last_word_end": since})
            self._has_spoken = False
        return told

    def _refused(self, problem: ProtocolError) -> list[Json]:
        self._last_code = problem.code
        if problem.code == EMPTY_COMMIT:
            return self._nothing_to_finalize()
        if problem.code.startswith("CONFIGURE_"):
            told = {"code": problem.code, "description": problem.message}
            return [{"type": "ConfigureFailure", "request_id": self._request, **told}]
        return [_error(problem)]

    def _nothing_to_finalize(self) -> list[Json]:
        """Told all the same, since clients wait for it; behind the text of what was said before."""
        self._finalizes -= 1
        if self._turns:
            list(self._turns.values())[-1].from_finalize = True
            return []
        nothing = Turn(self._next_start, self._next_start)
        return [self._told(nothing.final(nothing.start)) | {"from_finalize": True}]

    # --- what is known of all of it --------------------------------------------------------------

    def _told(self, result: Json) -> Json:
        """The result, and who heard it."""
        assert self._asked is not None, "a session whose URL was refused hears nothing"
        card = self._asked[1]
        if result["channel"]["alternatives"][0]["transcript"]:
            self._has_spoken = True
        result["metadata"] = {
            "request_id": self._request,
            "model_info": shapes.model_info(card),
            "model_uuid": shapes.model_uuid(card),
        }
        return result

    def _metadata(self, seconds: float) -> Json:
        assert self._asked is not None, "a session whose URL was refused hears nothing"
        told = shapes.metadata(
            self._asked[1],
            request=self._request,
            sha256=self._sha256.hexdigest(),
            created=self._created,
            seconds=seconds,
        )
        return {"type": "Metadata", **told}


def _error(problem: ProtocolError) -> Json:
    return {"type": "Error", "variant": problem.code, "description": problem.message}
