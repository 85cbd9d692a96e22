"""Deepgram's turn-based wire (Flux, `/v2/listen`): raw audio in, what becomes of turns out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from lookhear.engine.messages import ModelCard
from lookhear.gateway.checks.checks import ProtocolError, shown, wrong
from lookhear.gateway.checks.languages import language_code
from lookhear.gateway.checks.models import check_language
from lookhear.gateway.deepgram.options import (
    Options,
    Query,
    checked_keyterms,
    listener,
    live_audio,
)
from lookhear.gateway.http.notes import notes
from lookhear.gateway.realtime.deepgram.flux_turns import THRESHOLDS, FluxTurn, Thresholds
from lookhear.gateway.realtime.deepgram.listen import ListenDialect
from lookhear.gateway.realtime.deepgram.messages import KEYTERM_LIMIT, SCHEMA_ERROR, read
from lookhear.gateway.realtime.protocol import events
from lookhear.gateway.realtime.protocol.commands import (
    Append,
    ClientCommand,
    Commit,
    Configure,
    Finish,
)
from lookhear.gateway.realtime.protocol.dialect import Json
from lookhear.gateway.realtime.protocol.refusals import EMPTY_COMMIT, NO_PLACE
from lookhear.gateway.realtime.settings import SessionSettings, default_settings
from lookhear.gateway.sockets.cutting import WireFrame
from lookhear.gateway.telemetry.ids import IdFactory

ENGLISH = "flux-general-en"  # their model that hears nothing else
TYPES = ("CloseStream", "Configure", "ForceEndTurn", "KeepAlive")
# A message that is none; a Configure that cannot be carried out.
UNPARSABLE, INVALID = "UNPARSABLE_CLIENT_MESSAGE", "CONFIGURE_INVALID_VALUE"
GOES_ON = (SCHEMA_ERROR, NO_PLACE)  # codes of problems that end no session


class FluxDialect(ListenDialect):
    """See `Dialect`. A turn is told of from its first word on: what had none is nothing."""

    path: ClassVar[str] = "/v2/listen"

    def __init__(self, query: Mapping[str, str], ids: IdFactory) -> None:
        super().__init__(query, ids)
        self._card: ModelCard | None = None  # None: what was asked for cannot be had
        self._has_words = False  # whether deltas are followed by the times of their words
        self._thresholds = Thresholds()
        self._hints: tuple[str, ...] = ()
        self._sequence = 0  # of the next message
        self._turns: dict[str, FluxTurn] = {}  # by item, in the order in which they began
        self._next_index = 0

    def first_settings(
        self, models: Sequence[ModelCard]
    ) -> tuple[SessionSettings, ProtocolError | None]:
        """As the URL says."""
        settings, query = default_settings(models), Query(self._query)
        try:
            query.check_refused()
            hints, is_english = query.all("language_hint"), self.requested_model == ENGLISH
            if hints and is_english:
                expected = f"none with {ENGLISH}, flux-general-multi takes them"
                raise wrong("language_hint", expected, shown(hints[0]), "unsupported_parameter")
            options = Options(
                model=self.requested_model,
                language="en" if is_english else None,
                hints=tuple(filter(None, map(language_code, hints))),
                hinted="language_hint",
                tells_language=not is_english,
                keyterms=checked_keyterms(query.all("keyterm")),
            )
            card, self._audio = listener(options, models), live_audio(query)
            self._thresholds = Thresholds().changed(self._query, "invalid_value")
            self.headers = notes(card, query.ignored("model", *THRESHOLDS))
        except ProtocolError as problem:
            return settings, problem
        self._card, self._hints = card, options.hints
        self._has_words = card.untimed(options.language) is None
        settings = replace(
            self._hearing(settings),
            model=card.id,
            converse=None,
            language=options.language,
            languages=options.hints,
            keywords=options.keyterms,
            provisional=True,
            words=self._has_words,
            logprobs=not self._has_words,
        )
        return self._thresholds.apply(settings), None

    # --- what comes ------------------------------------------------------------------------------

    def parse(self, frame: WireFrame) -> Sequence[ClientCommand]:
        """Bytes are audio, none of them the end; text is a message."""
        if isinstance(frame, bytes) and frame:
            self._bytes += len(frame)
            return (Append(frame),)
        message = read(frame, TYPES) if isinstance(frame, str) else {"type": "CloseStream"}
        match message["type"]:
            case "ForceEndTurn":
                return (Commit(name="ForceEndTurn"),)
            case "Configure":
                return (self._configure(message),)
            case "CloseStream":
                return (Finish(name="CloseStream"),)
            case _:  # KeepAlive: it came, and that is all
                return ()

    def _configure(self, message: dict[str, Any]) -> Configure:
        """Raises ProtocolError."""
        thresholds, hints = message.get("thresholds") or {}, message.get("language_hints")
        terms = message.get("keyterms")
        terms = [terms] if isinstance(terms, str) else terms
        if not isinstance(thresholds, dict):
            raise wrong("thresholds", "an object", shown(thresholds), INVALID)
        for name, value in (("keyterms", terms), ("language_hints", hints)):
            is_list = isinstance(value, list) and all(isinstance(entry, str) for entry in value)
            if value is not None and not is_list:
                raise wrong(name, "an array of strings", shown(value), INVALID)

        def change(settings: SessionSettings, models: Sequence[ModelCard]) -> SessionSettings:
            new = self._thresholds.changed(thresholds, INVALID, "thresholds.")
            if terms is not None:
                keywords = checked_keyterms(terms, "keyterms", KEYTERM_LIMIT)
                settings = replace(settings, keywords=keywords)
            if hints is not None:
                settings = replace(settings, languages=self._checked_hints(hints))
            self._thresholds, self._hints = new, settings.languages
            return new.apply(settings)

        return Configure(change, name="Configure")

    def _checked_hints(self, hints: list[str]) -> tuple[str, ...]:
        assert self._card is not None, "a session whose URL was refused is not configured"
        if hints and self.requested_model == ENGLISH:
            expected = f"none with {ENGLISH}, flux-general-multi takes them"
            raise wrong("language_hints", expected, shown(hints[0]), INVALID)
        try:
            codes = tuple(filter(None, map(language_code, hints)))
            for code in codes:
                check_language(code, self._card, "language_hints")
        except ProtocolError as problem:
            raise ProtocolError(problem.message, code=INVALID, param=problem.param) from None
        return codes

    # --- what is told ----------------------------------------------------------------------------

    def render(self, event: events.SessionEvent) -> Sequence[Json]:
        """Of what there are no words for here, nothing is told."""
        match event:
            case events.SessionUpdated(settings=settings):
                told = {"thresholds": self._thresholds.told(), "keyterms": list(settings.keywords)}
                if self.requested_model != ENGLISH:
                    told["language_hints"] = list(settings.languages)
                return [self._message("ConfigureSuccess", **told)]
            case events.SessionCreated(session):
                self._request = session
                return [self._message("Connected")]
            case events.AudioUnpacked(seconds):
                self._unpacked = seconds
                return []
            case events.SpeakingStarted(item, milliseconds):
                start = self._begins(milliseconds / 1000)
                self._turns.setdefault(item, FluxTurn(start, start))
                return []
            case events.TurnCommitted():
                self._committed(event)
                return []
            case events.TranscriptDelta(item, _, text, logprobs):
                turn = self._turn(item)
                turn.add(text, logprobs)
                return [] if self._has_words else self._update(turn)  # they come next
            case events.TranscriptWords(item, _, words):
                turn = self._turn(item)
                turn.hear(words)
                return self._update(turn)
            case events.TranscriptProvisional(item, _, text):
                turn = self._turn(item)
                turn.guess = text
                return self._update(turn)
            case events.EagerEnd(item, _, over):
                return self._eager_end(self._turn(item), over or 0.0)
            case events.EagerResumed(item):
                return self._resumed(self._turn(item))
            case events.TranscriptDone(item, language=language):
                return self._completed(item, language)
            case events.TranscriptFailed(item, problem=problem):
                return [self._problem("Warning", problem), *self._completed(item, None)]
            case events.Refused(problem):
                return self._refused(problem)
            case _:
                return []

    # --- turns -----------------------------------------------------------------------------------

    def _turn(self, item: str) -> FluxTurn:
        if item not in self._turns:  # not announced: it begins where the one before ended
            self._turns[item] = FluxTurn(self._next_start, self._next_start)
        return self._turns[item]

    def _committed(self, event: events.TurnCommitted) -> None:
        turn = self._turn(event.item.id)
        turn.commit(event.start, event.seconds)
        self._next_start = event.start + event.seconds
        turn.over = event.over or 0.0
        if event.by_voice:
            is_models = event.was_judged and event.over is not None
            turn.trigger = "model" if is_models else "timeout"

    def _update(self, turn: FluxTurn) -> list[Json]:
        """Its text may be another one, or more of it settled."""
        if turn.news == turn.told or not (turn.said or turn.index is not None):
            return []
        if turn.index is None:
            return self._begun(turn)
        if turn.eager is None:
            return [self._info(turn, "Update")]
        if turn.eager == turn.said:  # between the two ends of a turn nothing but its end is told
            return []
        # What was said to be all was not, but more of it is not said now.
        return [*self._resumed(turn, turn.over), *self._eager_end(turn, turn.over)]

    def _begun(self, turn: FluxTurn) -> list[Json]:
        """It is told of from now on, if it was not."""
        if turn.index is not None:
            return []
        turn.index, self._next_index = self._next_index, self._next_index + 1
        return [self._info(turn, "StartOfTurn")]

    def _eager_end(self, turn: FluxTurn, over: float) -> list[Json]:
        turn.over = over
        if not turn.said:
            return []
        told = self._begun(turn)
        turn.eager = turn.said
        return [*told, self._info(turn, "EagerEndOfTurn")]

    def _resumed(self, turn: FluxTurn, over: float = 0.0) -> list[Json]:
        turn.over = over
        if turn.eager is None:
            return []
        turn.eager = None
        return [self._info(turn, "TurnResumed")]

    def _completed(self, item: str, language: str | None) -> list[Json]:
        turn = self._turn(item)
        del self._turns[item]
        turn.guess = ""
        if turn.index is None and not turn.said:  # a noise
            return []
        told = self._begun(turn)
        if turn.eager != turn.said:
            told += self._resumed(turn, turn.over)
        last = self._info(turn, "EndOfTurn") | {"trigger": turn.trigger}
        if language is not None and self.requested_model != ENGLISH:
            last["languages"] = [language]
        return [*told, last]

    def _info(self, turn: FluxTurn, event: str) -> Json:
        assert turn.index is not None, "nothing is told of a turn without words"
        turn.told = turn.news
        hinted = {"languages_hinted": list(self._hints)} if self._hints else {}
        return self._message(
            "TurnInfo",
            event=event,
            turn_index=turn.index,
            audio_window_start=round(turn.start, 3),
            audio_window_end=round(turn.heard_until(self._came), 3),
            transcript=turn.said,
            words=turn.all_words(),
            end_of_turn_confidence=round(turn.over, 4),
            **hinted,
        )

    # --- everything else -------------------------------------------------------------------------

    def _refused(self, problem: ProtocolError) -> list[Json]:
        self._last_code = problem.code
        if problem.code == EMPTY_COMMIT:  # no turn is under way, so there is none to end
            return []
        if problem.code.startswith("CONFIGURE_"):
            told = {"code": problem.code, "description": problem.message}
            return [self._message("ConfigureFailure", **told)]
        return [self._problem("Warning" if problem.code in GOES_ON else "Error", problem)]

    def _problem(self, type: str, problem: ProtocolError) -> Json:
        code = UNPARSABLE if problem.code == SCHEMA_ERROR else problem.code.upper()
        return self._message(type, code=code, description=problem.message)

    def _message(self, type: str, **fields: Any) -> Json:
        """The next one, counted."""
        told = {"type": type, "sequence_id": self._sequence, **fields}
        self._sequence += 1
        return told if type == "Error" else {"request_id": self._request, **told}
