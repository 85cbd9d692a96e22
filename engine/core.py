"""The engine proper: messages in, one step at a time, events out. **The main path; read first.**

    submit(message)   a session's audio, a file, an end, a cancellation
    step()            owners with work get tickets -> the scheduler admits them and shares out the
                      tokens of the step -> the runner encodes, and decodes for all of them at once
                      -> policies -> events

No sockets, no clock, no threads: `engine.process` wraps it, tests drive it directly.
"""

from __future__ import annotations

import logging
from typing import Any

from engine.messages import (
    AnswerFailed,
    AppendAudio,
    CancelFile,
    CancelTurn,
    CloseSession,
    EndTurn,
    Event,
    FileFailed,
    Message,
    OpenSession,
    Ping,
    Pong,
    StartAnswer,
    StartTurn,
    TranscribeFile,
    TurnFailed,
)
from engine.request import Phase, Priority, RequestError
from engine.runner import Failure, Outcome, Runner, Running
from engine.scheduler import Scheduler
from engine.sessions.family import Family, settings_error, too_long
from engine.sessions.live import LiveTurn
from engine.sessions.policy import Owner

log = logging.getLogger(__name__)


class EngineCore:
    """One model, all its sessions. Every public call belongs to the thread that owns the device.

    name: the model's name on the wire. max_live_turns: open turns over all sessions.
    """

    def __init__(
        self,
        name: str,
        family: Family,
        runner: Runner[Any, Any],
        scheduler: Scheduler,
        max_live_turns: int,
    ) -> None:
        self._name = name
        self._family = family
        self._runner = runner
        self._scheduler = scheduler
        self._max_live_turns = max_live_turns
        self._sessions: dict[str, set[str]] = {}  # session -> keys of its open turns
        self._turns: dict[str, LiveTurn] = {}
        self._owners: dict[str, tuple[Priority, Owner]] = {}
        self._running: dict[str, Running] = {}
        self._events: list[Event] = []
        self._num_steps = self._num_requests = 0
        self._num_drafted = self._num_accepted = self._num_passes = 0

    # --- messages --------------------------------------------------------------------------------

    def submit(self, message: Message) -> None:
        """Take one message. Its events, if any, come out of the next `step`."""
        match message:
            case StartTurn():
                self._start_turn(message)
            case AppendAudio(session, turn):
                self._append(_key(session, turn), message)
            case EndTurn(session, turn):
                if live := self._turns.get(_key(session, turn)):
                    live.end()
                    self._events.extend(live.settle())
                    self._drop_if_done(_key(session, turn))
            case CancelTurn(session, turn):
                self._drop(_key(session, turn))
            case OpenSession(session):
                self._sessions.setdefault(session, set())
            case CloseSession(session):
                for key in self._sessions.pop(session, set()).copy():
                    self._drop(key)
            case TranscribeFile():
                self._start_file(message)
            case CancelFile(request):
                self._drop(request)
            case StartAnswer(session, answer):
                text = f"model: expected one that chats, {self._name} transcribes"
                self._events.append(AnswerFailed(session, answer, "invalid_model", text))
            case Ping(number):
                self._events.append(Pong(number, self.stats()))

    def _start_turn(self, message: StartTurn) -> None:
        session, turn = message.session, message.turn
        key = _key(session, turn)
        if key in self._owners:
            text = f"turn: expected a new name, {turn!r} is open already"
            self._events.append(TurnFailed(session, turn, "duplicate_turn", text))
            return
        error = settings_error(self._family, self._name, message.settings)
        if error is None and len(self._turns) >= self._max_live_turns:
            error = (
                "too_many_turns",
                f"this engine listens to {self._max_live_turns} speakers at once; all are taken",
            )
        if error is not None:
            self._events.append(TurnFailed(session, turn, *error))
            return
        live = self._family.start_turn(session, turn, message.settings)
        self._turns[key] = live
        self._owners[key] = (Priority.LIVE, live)
        self._sessions.setdefault(session, set()).add(key)

    def _append(self, key: str, message: AppendAudio) -> None:
        live = self._turns.get(key)
        if live is None or live.has_ended:
            return  # failed, cancelled or over; the gateway may not have heard of it yet
        limit = self._family.max_samples
        if live.num_samples + len(message.samples) > limit:
            seconds = limit // 16_000
            text = f"the turn is longer than {seconds} s; commit it in shorter pieces"
            self._events.extend(live.fail("audio_too_long", text))
            self._drop(key)
            return
        live.append(message.samples, message.voiced_until)
        self._events.extend(live.settle())

    def _start_file(self, message: TranscribeFile) -> None:
        error = settings_error(self._family, self._name, message.settings)
        if error is None and message.request in self._owners:
            error = ("duplicate_request", f"request: {message.request!r} is running already")
        error = error or too_long(len(message.samples), self._family.max_samples)
        if error is not None:
            self._events.append(FileFailed(message.request, *error))
            return
        job = self._family.start_file(message)
        self._owners[message.request] = (Priority.BATCH, job)
        self._events.extend(job.settle())
        self._drop_if_done(message.request)

    def _drop(self, key: str) -> None:
        """Forget an owner at any moment: its ticket, its rows and slots, its running request."""
        self._scheduler.forget(key)
        self._owners.pop(key, None)
        self._turns.pop(key, None)
        if sequence := self._running.pop(key, None):
            self._runner.release(sequence)
        self._runner.forget(key)
        for keys in self._sessions.values():
            keys.discard(key)

    def _drop_if_done(self, key: str) -> None:
        owner = self._owners.get(key)
        if owner is not None and owner[1].is_done:
            self._drop(key)

    def stats(self) -> dict[str, int]:
        """Since the start: steps, requests finished, decoder passes of those requests, draft tokens
        offered and kept. Now: turns open, requests waiting. And what the runner counts."""
        return {
            "steps": self._num_steps,
            "requests": self._num_requests,
            "decoder_passes": self._num_passes,
            "drafted_tokens": self._num_drafted,
            "accepted_tokens": self._num_accepted,
            "live_turns": len(self._turns),
            "waiting": self._scheduler.num_waiting,
            **self._runner.stats(),
        }

    # --- steps -----------------------------------------------------------------------------------

    @property
    def has_work(self) -> bool:
        """Whether `step` would do anything."""
        return bool(self._running or self._events or self._scheduler.num_waiting) or any(
            owner.wants_request() for _, owner in self._owners.values()
        )

    def step(self) -> list[Event]:
        """Run the next batch: schedule, launch, wait, commit, hand out the events."""
        self._num_steps += 1
        work = self._schedule()
        handle = self._runner.launch(work)
        outcome = handle.wait()
        self._commit(outcome)
        events, self._events = self._events, []
        return events

    def _schedule(self) -> list[tuple[Running, int]]:
        """Who is fed how many tokens in this step, those among them who begin with it."""
        for key, (priority, owner) in self._owners.items():
            if self._scheduler.is_running(key):
                continue
            if owner.wants_request():
                self._scheduler.want(key, priority, owner.cost(), is_urgent=owner.is_urgent)
            else:
                self._scheduler.forget(key)
        for key in self._scheduler.admit(self._runner.free_tokens):
            try:
                self._running[key] = self._runner.place(self._owners[key][1].make_request())
            except RequestError as error:
                self._fail(Failure(key, error.code, str(error)))
        demands = {key: sequence.demand() for key, sequence in self._running.items()}
        shares = self._scheduler.share(demands)
        return [(self._running[key], count) for key, count in shares.items()]

    def _commit(self, outcome: Outcome) -> None:
        for failure in outcome.failures:
            self._fail(failure)
        for key, sequence in list(self._running.items()):
            if sequence.phase is Phase.DONE:
                self._finish(key, sequence)

    def _finish(self, key: str, sequence: Running) -> None:
        result = sequence.result()
        self._runner.release(sequence)
        del self._running[key]
        self._scheduler.finish(key)
        self._num_requests += 1
        self._num_drafted += sequence.num_drafted
        self._num_accepted += result.num_accepted
        self._num_passes += result.num_passes
        # To the end of the line: among those who are due at once, nobody is always the first.
        self._owners[key] = self._owners.pop(key)
        self._events.extend(self._owners[key][1].absorb(result))
        self._drop_if_done(key)

    def _fail(self, failure: Failure) -> None:
        log.error("%s failed: %s: %s", failure.key, failure.code, failure.message)
        self._events.extend(self._owners[failure.key][1].fail(failure.code, failure.message))
        self._drop(failure.key)

    def check(self) -> None:
        """Raise AssertionError if anything leaked. Cheap; for tests and idle moments."""
        self._scheduler.check()
        self._runner.check(len(self._running))
        assert set(self._turns) <= set(self._owners)
        if not self._owners:
            assert not self._running and not any(self._sessions.values())


def _key(session: str, turn: str) -> str:
    return f"{session}/{turn}"
