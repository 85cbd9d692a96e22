"""What one session adds to the metrics, and its line in the log when it ends."""

from __future__ import annotations

import logging
from collections.abc import Callable

from starlette.websockets import WebSocket

from lookhear.engine.messages import (
    AnswerFailed,
    AnswerStarted,
    CancelAnswer,
    Event,
    Message,
    StartAnswer,
)
from lookhear.gateway.checks.checks import ProtocolError
from lookhear.gateway.realtime.protocol.outputs import (
    Finding,
    GuessAsked,
    ResponseFinished,
    TurnFinished,
)
from lookhear.gateway.realtime.protocol.refusals import GOING_AWAY
from lookhear.gateway.realtime.session.machine import RealtimeProtocol
from lookhear.gateway.realtime.session.queues import Outbox
from lookhear.gateway.telemetry.cadence import Cadence
from lookhear.gateway.telemetry.log import LOGGER, address, log_event
from lookhear.gateway.telemetry.metrics import Metrics

MAX_SHOWN = 200  # characters of what a client calls itself
LOGGED_ERRORS = 10  # of one session; the rest are only counted
OUTCOMES = {"completed": "stop", "incomplete": "length"}  # the others are called as they are


class Tally:
    """clock: seconds, monotonic."""

    def __init__(self, session: str, metrics: Metrics, clock: Callable[[], float]) -> None:
        self.bytes_in = 0
        self._session = session
        self._metrics = metrics
        self._clock = clock
        self._began = clock()
        self._turns_failed = 0
        self._responses = 0
        self._errors = 0
        self._asked: dict[str, float] = {}  # when, of answers that have not begun
        self._guess: str | None = None  # an eager answer, which nobody has asked for
        self._guess_began = False
        self._cadence = Cadence(metrics.inter_token, clock)

    def submitted(self, message: Message) -> None:
        """The engine was sent this."""
        if isinstance(message, StartAnswer) and message.is_eager:
            self._guess, self._guess_began = message.answer, False
        elif isinstance(message, StartAnswer):
            self._asked[message.answer] = self._clock()
        elif isinstance(message, CancelAnswer):
            self._asked.pop(message.answer, None)

    def said(self, event: Event) -> None:
        """The engine said this."""
        if self._guess is not None and getattr(event, "answer", None) == self._guess:
            self._guess_began |= isinstance(event, AnswerStarted)
            return
        self._cadence.said(event)
        if isinstance(event, AnswerStarted | AnswerFailed):
            asked = self._asked.pop(event.answer, None)
            if asked is not None and isinstance(event, AnswerStarted):
                self._metrics.first_token.observe(self._clock() - asked)

    def found(self, what: Finding) -> None:
        """The session's protocol tells this."""
        match what:
            case TurnFinished():
                self._turn(what)
            case ResponseFinished(_, status):
                self._response(OUTCOMES.get(status, status))
            case GuessAsked(answer):
                self._ask(answer)

    def _ask(self, guess: str) -> None:
        """From now on it is an answer like any other, which may have begun before it was asked."""
        if guess == self._guess:
            self._guess = None
            if self._guess_began:
                self._metrics.first_token.observe(0.0)
            else:
                self._asked[guess] = self._clock()

    def _turn(self, finished: TurnFinished) -> None:
        """A turn was transcribed, or was not."""
        outcome = "failed" if finished.lag is None else "completed"
        self._metrics.turns.labels(outcome).inc()
        if finished.lag is None:
            self._turns_failed += 1
        else:
            self._metrics.commit_lag.observe(finished.lag)

    def _response(self, outcome: str) -> None:
        self._metrics.answers.labels(outcome).inc()
        self._responses += 1

    def error(self, problem: ProtocolError) -> None:
        """The client is told of it."""
        self._metrics.errors.labels(problem.code).inc()
        self._errors += 1
        if self._errors <= LOGGED_ERRORS:
            # A server that ends tells so every session that is open then: that is nobody's fault.
            is_ours = problem.type == "server_error" and problem.code != GOING_AWAY
            # What was refused is the client's own: its words are for those who debug.
            log_event(
                "session.error",
                level=logging.WARNING if is_ours else logging.INFO,
                session=self._session,
                code=problem.code,
                type=problem.type,
            )
            log_event(
                "session.error.words",
                level=logging.DEBUG,
                session=self._session,
                param=problem.param,
                reason=problem.message,
            )

    def bug(self, error: Exception) -> None:
        """Ours; the engine's events come in a task of no session, so it is named here."""
        told = {"fields": {"session": self._session}}
        logging.getLogger(LOGGER).error("session failed", exc_info=error, extra=told)

    def end(
        self, websocket: WebSocket, outbox: Outbox, protocol: RealtimeProtocol, resumed: int
    ) -> None:
        """The one line about the whole session. websocket: its first one."""
        for _ in range(protocol.responses_open):
            self._response("cancelled")
        self._metrics.count_session(outbox.close_code)
        agent = websocket.headers.get("user-agent")
        log_event(
            "session.end",
            session=self._session,
            client=address(websocket.scope),
            user_agent=None if agent is None else agent[:MAX_SHOWN],
            model=protocol.settings.main_model,
            turns=protocol.turns_committed,
            audio_seconds=round(protocol.seconds_heard, 3),
            close_reason=outbox.reason,
            turns_failed=self._turns_failed,
            responses=self._responses,
            errors=self._errors,
            resumed=resumed,
            seconds=round(self._clock() - self._began, 3),
            close_code=outbox.close_code,
            bytes_in=self.bytes_in,
            bytes_out=outbox.bytes_sent,
        )
