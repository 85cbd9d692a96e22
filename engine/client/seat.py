"""A session's seat at one model: with an engine, or waiting for one."""

from __future__ import annotations

import asyncio
import contextlib

from lookhear.engine.client.errors import EngineUnavailable
from lookhear.engine.client.journal import Held, Journal
from lookhear.engine.client.pool import Pool
from lookhear.engine.client.replica import Replica
from lookhear.engine.messages import (
    AnswerCall,
    AnswerCompleted,
    AnswerFailed,
    AnswerText,
    CancelAnswer,
    CloseSession,
    EngineFailed,
    Event,
    ExpectSpeech,
    Message,
    TextCommitted,
    TurnCompleted,
    TurnSettled,
)

# Engines that a session may see die while it has something under way and nothing comes of it: it
# may be what kills them.
MOST_DEATHS = 3
_PROGRESS = TextCommitted | TurnSettled | TurnCompleted | AnswerText | AnswerCall | AnswerCompleted


class Seat:
    """replica: the engine that has what is under way; None while it waits for one. journal: with
    which another can go on; None where sessions end with their engine. failure: of the last engine.
    has_left: its engine lives, but is to end. timer: gives the seat up, while it waits."""

    def __init__(self, session: str, pool: Pool, held: Held) -> None:
        self.session = session
        self.pool = pool
        self.journal = Journal(session, pool.name, held) if pool.recover_seconds else None
        self.replica: Replica | None = None
        self.has_left = False
        self.timer: asyncio.TimerHandle | None = None
        text = f"the engine of {pool.name} is not running"
        self.failure = EngineFailed("engine_unavailable", text)
        self._deaths = 0  # in a row, with nothing said in between

    def sit(self, replica: Replica) -> None:
        """It is served there from now on."""
        self.replica, self.has_left = replica, False
        self.pool.seated(replica)
        self._stop_timer()

    def send(self, message: Message) -> None:
        """To its engine, or to the next one. Raises EngineUnavailable if the engine does not keep
        up, or is gone and nobody is to go on."""
        if self.journal is not None:
            message = self.journal.sent(message)
            if self.replica is None or not self.replica.is_running:
                return  # its death will be told; then another one goes on
        assert self.replica is not None
        self._pass_on(self.replica, message)

    def _pass_on(self, replica: Replica, message: Message) -> None:
        replica.send(message)
        if isinstance(message, ExpectSpeech):
            self.pool.let_in(replica)

    def heard(self, event: Event) -> Event | None:
        """From its engine. Returns what the session is to hear of it."""
        if self.journal is None:
            return event
        told = self.journal.heard(event)
        if isinstance(told, AnswerFailed) and not isinstance(event, AnswerFailed):
            assert self.replica is not None
            with contextlib.suppress(EngineUnavailable):  # then it does not write on anyway
                self.replica.send(CancelAnswer(self.session, told.answer))
        # What is told of answers alone: they begin anew with each engine.
        if isinstance(event, TurnSettled) or isinstance(told, _PROGRESS):
            self._deaths = 0
        return told

    def leave(self) -> None:
        """Its engine is to end: it forgets the session, which goes on with another."""
        assert self.replica is not None
        with contextlib.suppress(EngineUnavailable):  # then it has died, and forgotten it
            self.replica.send(CloseSession(self.session))
        self.pool.left(self.replica)
        self.replica, self.has_left = None, True

    def lose(self, failure: EngineFailed) -> None:
        """Its engine has died."""
        assert self.replica is not None
        self.pool.left(self.replica)
        self.replica = None
        self.failure = failure
        if self.journal is not None and self.journal.is_busy:
            self._deaths += 1

    @property
    def is_busy(self) -> bool:
        """Whether it has something under way, as far as is known."""
        return self.journal is None or self.journal.is_busy

    @property
    def can_resume(self) -> bool:
        """Whether another engine can go on, and is to be given the chance."""
        return self.journal is not None and self.journal.is_whole and self._deaths <= MOST_DEATHS

    def resume(self, replica: Replica) -> None:
        """Another engine goes on. Raises EngineUnavailable if it died, too."""
        assert self.journal is not None and self.replica is None
        for message in self.journal.replay():
            self._pass_on(replica, message)
        self.sit(replica)

    def close(self) -> None:
        """The session is over, or nobody goes on with it."""
        self._stop_timer()
        if self.journal is not None:
            self.journal.close()
        if self.replica is not None:
            self.pool.left(self.replica)
            self.replica = None

    def _stop_timer(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
