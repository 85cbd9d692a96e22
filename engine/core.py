"""The engine proper: messages in, one step at a time, events out. **The main path; read first.**

    submit(message)   a session's audio, a question, a cancellation: the desk makes owners of them
    step()            owners with work get tickets -> the scheduler admits them and shares out the
                      tokens of the step -> the runner encodes, and decodes for all of them at once
                      -> policies -> events

No sockets, no clock, no threads: `engine.process` wraps it, tests drive it directly.
"""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass
from typing import Any

from engine.desk import Desk
from engine.messages import CloseSession, Event, Message, OpenSession, Ping, Pong
from engine.request import Phase, Priority, RequestError
from engine.runner import Failure, Handle, Outcome, Runner, Running
from engine.scheduler import Scheduler
from engine.sessions.policy import Owner, Streamer

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Launched:
    """A step that the device is busy with, and whom it feeds."""

    handle: Handle
    sequences: list[Running]


class EngineCore:
    """One model, all its sessions. Every public call belongs to the thread that owns the device.

    desk: takes the messages of this kind of model; what it makes of them are owners. overlap: steps
    that are launched before the one in front of them has been read, 0 or 1. With 1 the host's work
    is hidden behind the device's; texts are the same, and come a step later.
    """

    def __init__(
        self, desk: Desk, runner: Runner[Any, Any], scheduler: Scheduler, *, overlap: int = 0
    ) -> None:
        assert overlap in (0, 1), overlap
        self._overlap = overlap
        self._launched: deque[Launched] = deque()
        self._retired: list[Running] = []  # over, but a launched step still writes to their room
        self._desk = desk
        self._runner = runner
        self._scheduler = scheduler
        self._sessions: dict[str, set[str]] = {}  # session -> keys of its owners
        self._owners: dict[str, tuple[Priority, Owner]] = {}
        self._running: dict[str, Running] = {}
        self._events: list[Event] = []
        self._num_steps = self._num_requests = 0
        self._num_drafted = self._num_accepted = self._num_passes = 0

    # --- messages --------------------------------------------------------------------------------

    def submit(self, message: Message) -> None:
        """Take one message. Its events, if any, come out of the next `step`."""
        match message:
            case OpenSession(session):
                self._sessions.setdefault(session, set())
            case CloseSession(session):
                self._desk.close(session)
                for key in self._sessions.pop(session, set()).copy():
                    self.drop(key)
            case Ping(number):
                self._events.append(Pong(number, self.stats()))
            case _:
                self._events.extend(self._desk.take(message, self))

    # --- owners: what the desk may do ------------------------------------------------------------

    def add(self, key: str, priority: Priority, owner: Owner, session: str | None = None) -> None:
        """An owner under a new name. With a session, it is dropped when that closes."""
        assert key not in self._owners, key
        self._owners[key] = (priority, owner)
        if session is not None:
            self._sessions.setdefault(session, set()).add(key)

    def owner(self, key: str) -> Owner | None:
        held = self._owners.get(key)
        return held[1] if held else None

    def count(self, kind: type) -> int:
        """How many owners of a kind there are."""
        return sum(isinstance(owner, kind) for _, owner in self._owners.values())

    def drop(self, key: str) -> None:
        """Forget an owner at any moment: its ticket, its rows and slots, its running request."""
        self._scheduler.forget(key)
        self._owners.pop(key, None)
        if sequence := self._running.pop(key, None):
            self._retire(sequence)
        self._runner.forget(key)
        for keys in self._sessions.values():
            keys.discard(key)

    def drop_if_done(self, key: str) -> None:
        owner = self.owner(key)
        if owner is not None and owner.is_done:
            self.drop(key)

    def stats(self) -> dict[str, int]:
        """Since the start: steps, requests finished, decoder passes of those requests, draft tokens
        offered and kept. Now: requests waiting. And what the desk and the runner count."""
        return {
            "steps": self._num_steps,
            "requests": self._num_requests,
            "decoder_passes": self._num_passes,
            "drafted_tokens": self._num_drafted,
            "accepted_tokens": self._num_accepted,
            **self._desk.stats(self),
            "waiting": self._scheduler.num_waiting,
            **self._runner.stats(),
        }

    # --- steps -----------------------------------------------------------------------------------

    @property
    def has_work(self) -> bool:
        """Whether `step` would do anything."""
        if self._launched:
            return True
        return bool(self._running or self._events or self._scheduler.num_waiting) or any(
            owner.wants_request() for _, owner in self._owners.values()
        )

    def step(self) -> list[Event]:
        """Run the next batch: schedule, launch, wait, commit, hand out the events."""
        self._num_steps += 1
        work = self._schedule()
        if work:
            self._launch(work)
        outcome = self._wait(is_idle=not work)
        self._commit(outcome)
        events, self._events = self._events, []
        return events

    def _schedule(self) -> list[tuple[Running, int]]:
        """Who is fed how many tokens in this step, those among them who begin with it."""
        retired = {sequence.key for sequence in self._retired}
        for key, (priority, owner) in self._owners.items():
            if self._scheduler.is_running(key) or key in retired:
                continue
            if owner.wants_request():
                self._scheduler.want(key, priority, owner.cost(), is_urgent=owner.is_urgent)
            else:
                self._scheduler.forget(key)
        for key in self._scheduler.admit(self._runner.free_tokens, len(self._retired)):
            try:
                self._running[key] = self._runner.place(self._owners[key][1].make_request())
            except RequestError as error:
                self._fail(Failure(key, error.code, str(error)))
        demands = {key: sequence.demand() for key, sequence in self._running.items()}
        shares = self._scheduler.share(demands)
        return [(self._running[key], count) for key, count in shares.items()]

    def _launch(self, work: list[tuple[Running, int]]) -> None:
        handle = self._runner.launch(work)
        self._launched.append(Launched(handle, [sequence for sequence, _ in work]))

    def _wait(self, *, is_idle: bool) -> Outcome:
        """Of the oldest step, unless it may overlap with the next one."""
        if len(self._launched) <= (0 if is_idle else self._overlap):
            return Outcome()
        outcome = self._launched.popleft().handle.wait()
        self._release_retired()
        return outcome

    def _commit(self, outcome: Outcome) -> None:
        for failure in outcome.failures:
            if failure.key in self._running:  # not dropped while the step was on its way
                self._fail(failure)
        for key, sequence in list(self._running.items()):
            if isinstance(owner := self._owners[key][1], Streamer):
                self._events.extend(owner.follow(sequence))
            if sequence.phase is Phase.DONE:
                self._finish(key, sequence)

    def _finish(self, key: str, sequence: Running) -> None:
        result = sequence.result()
        del self._running[key]
        self._retire(sequence)
        self._scheduler.finish(key)
        self._num_requests += 1
        self._num_drafted += sequence.num_drafted
        self._num_accepted += result.num_accepted
        self._num_passes += result.num_passes
        # To the end of the line: among those who are due at once, nobody is always the first.
        self._owners[key] = self._owners.pop(key)
        self._events.extend(self._owners[key][1].absorb(result))
        self.drop_if_done(key)

    def _retire(self, sequence: Running) -> None:
        """A request is over. Its room is free as soon as no launched step writes to it; what such a
        step sampled for it is nobody's."""
        sequence.phase = Phase.DONE
        self._retired.append(sequence)
        self._release_retired()

    def _release_retired(self) -> None:
        busy = {id(sequence) for step in self._launched for sequence in step.sequences}
        free = [sequence for sequence in self._retired if id(sequence) not in busy]
        self._retired = [sequence for sequence in self._retired if id(sequence) in busy]
        for sequence in free:
            self._runner.release(sequence)
            if sequence.key not in self._owners:
                self._runner.forget(sequence.key)

    def _fail(self, failure: Failure) -> None:
        log.error("%s failed: %s: %s", failure.key, failure.code, failure.message)
        self._events.extend(self._owners[failure.key][1].fail(failure.code, failure.message))
        self.drop(failure.key)

    def check(self) -> None:
        """Raise AssertionError if anything leaked. Cheap; for tests and idle moments."""
        self._scheduler.check()
        self._runner.check(len(self._running) + len(self._retired))
        if not self._owners:
            assert not self._running and not any(self._sessions.values())
