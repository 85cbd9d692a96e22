"""The engine proper: messages in, one step at a time, events out. **The main path; read first.**

    submit(message)   a session's audio, a question, a cancellation: the desk makes owners of them
    step()            owners with work get tickets -> the scheduler admits them and shares out the
                      tokens of the step -> the runner encodes, and decodes for all of them at once
                      -> policies -> events

No sockets, no clock, no threads: `engine.process` wraps it, tests drive it directly.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from lookhear.engine.core.owner import Owner, Streamer
from lookhear.engine.core.request import Phase, Priority, RequestError
from lookhear.engine.core.request_times import RequestTimes
from lookhear.engine.core.runner import Failure, Finish, Runner, Running, raise_if_lost
from lookhear.engine.core.scheduler import Scheduler
from lookhear.engine.messages import CloseSession, Event, Message, Ping, Pong, RequestDone

log = logging.getLogger(__name__)

OUR_FAULT = ("server_error", "model_error", "out_of_memory")  # codes; all others are refusals
# Requests that a bug ends one after the other, none between them having gone well: it is no one
# request's then, and the engine begins anew.
MAX_BUGS = 8


class Desk(Protocol):
    """Takes the messages of one kind of model, and makes owners of them. Pure, like the core."""

    def take(self, message: Message, core: EngineCore) -> list[Event]:
        """Begin, feed or end an owner; what is not for this kind of model is refused."""

    def close(self, session: str) -> None:
        """The session is over; its owners are dropped by the core."""

    def left(self, key: str, session: str, core: EngineCore) -> list[Event]:
        """An owner of a session is gone; what waited for that may begin."""

    def stats(self, core: EngineCore) -> dict[str, int]:
        """How it is now, for the metrics."""


@dataclass(frozen=True, slots=True)
class Step:
    """Who took part in one. live: owners of class `live` with a request under way. done: those of
    them whose request it ended. mixed: whether others took part."""

    live: Sequence[str] = ()
    done: Sequence[str] = ()
    mixed: bool = False


class EngineCore:
    """One model, all its sessions. Every public call belongs to the thread that owns the device.

    desk: takes the messages of this kind of model; what it makes of them are owners. overlap: steps
    that are launched before the one in front of them has been read, 0 or 1. With 1 the host's work
    is hidden behind the device's; texts are the same, and come a step later. times: set by whoever
    has a clock; then `RequestDone` tells of each request.
    """

    def __init__(
        self, desk: Desk, runner: Runner[Any, Any], scheduler: Scheduler, *, overlap: int = 0
    ) -> None:
        assert overlap in (0, 1), overlap
        self._overlap = overlap
        # Steps that the device is busy with, and whom each feeds.
        self._launched: deque[tuple[Finish, list[Running]]] = deque()
        self._retired: list[Running] = []  # over, but a launched step still writes to their room
        self._desk = desk
        self._runner = runner
        self._scheduler = scheduler
        self._sessions: dict[str, set[str]] = {}  # session -> keys of its owners
        self._session_of: dict[str, str] = {}
        self._owners: dict[str, tuple[Priority, Owner]] = {}
        self._streamers: dict[str, Streamer] = {}  # owners that are told after every step
        self._counts: Counter[type] = Counter()  # owners of each kind
        # Owners whose wishes may have changed since their tickets were brought up to date, in the
        # order in which they did: so among those who are due at once, nobody is always the first.
        self._changed: dict[str, None] = {}
        self._running: dict[str, Running] = {}
        self._live: dict[str, None] = {}  # of those that run, class `live`
        self._events: list[Event] = []
        self._departed: list[tuple[str, str]] = []  # owners that are gone, with their session
        self.last_step = Step()  # for whoever has a clock
        self.times: RequestTimes | None = None
        self._num_steps = self._num_requests = 0
        self._num_bugs = 0  # in a row
        self._num_drafted = self._num_accepted = self._num_passes = 0

    # --- messages --------------------------------------------------------------------------------

    def submit(self, message: Message) -> None:
        """Take one message. Its events, if any, come out of the next `step`."""
        match message:
            case CloseSession(session):
                self._desk.close(session)
                self.drop_session(session)
            case Ping(number):
                self._events.append(Pong(number, self.stats()))
            case _:
                self._events.extend(self._desk.take(message, self))
        if self._departed:
            self._follow_departed()

    def _follow_departed(self) -> None:
        """Whoever waited for an owner begins behind all that it said."""
        while self._departed:
            key, session = self._departed.pop(0)
            self._events.extend(self._desk.left(key, session, self))

    # --- owners: what the desk may do ------------------------------------------------------------

    def add(self, key: str, priority: Priority, owner: Owner, session: str | None = None) -> None:
        """An owner under a new name. With a session, it is dropped when that closes."""
        assert key not in self._owners, key
        self._owners[key] = (priority, owner)
        self._counts[type(owner)] += 1
        if isinstance(owner, Streamer):
            self._streamers[key] = owner
        self._changed[key] = None
        if session is not None:
            self._sessions.setdefault(session, set()).add(key)
            self._session_of[key] = session

    def owner(self, key: str) -> Owner | None:
        """Who asks may tell it something: its ticket is looked at again."""
        held = self._owners.get(key)
        if held is None:
            return None
        self._changed[key] = None
        return held[1]

    def changed(self, key: str) -> None:
        """The owner may want something else than before, by no message."""
        assert key in self._owners, key
        self._changed[key] = None

    def count(self, kind: type) -> int:
        """How many owners of a kind there are."""
        return sum(number for held, number in self._counts.items() if issubclass(held, kind))

    def drop(self, key: str) -> None:
        """Forget an owner at any moment: its ticket, its rows and slots, its running request."""
        self._forget_ticket(key)
        self._changed.pop(key, None)
        if held := self._owners.pop(key, None):
            self._counts[type(held[1])] -= 1
            self._streamers.pop(key, None)
        if sequence := self._running.pop(key, None):
            self._live.pop(key, None)
            self._retire(sequence)
        self._runner.forget(key)
        session = self._session_of.pop(key, None)
        if session is not None and session in self._sessions:
            self._sessions[session].discard(key)
            self._departed.append((key, session))

    def drop_session(self, session: str) -> None:
        """All owners of a session; nobody is told that they left."""
        for key in self._sessions.pop(session, set()).copy():
            self.drop(key)

    def drop_if_done(self, key: str) -> None:
        """Forget an owner that has said all it had to say."""
        held = self._owners.get(key)
        if held is not None and held[1].is_done:
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
        if self._launched or self._running or self._events:
            return True
        self._update_tickets()
        return self._scheduler.num_waiting > 0 or bool(self._events)

    def step(self) -> list[Event]:
        """Run the next batch: schedule, launch, wait, commit, hand out the events."""
        self._num_steps += 1
        work = self._schedule()
        live = [*self._live]
        is_mixed = len(live) < len(self._running)
        if work:
            self._launch(work)
        self._commit(self._wait(is_idle=not work))
        done = [key for key in live if key not in self._running]
        self.last_step = Step(live, done, is_mixed)
        self._follow_departed()
        events, self._events = self._events, []
        return events

    def _schedule(self) -> list[tuple[Running, int]]:
        """Who is fed how many tokens in this step, those among them who begin with it."""
        self._update_tickets()
        for key in self._scheduler.admit(self._runner.free_tokens, len(self._retired)):
            if self.times is not None:
                self.times.begun(key)
            priority, owner = self._owners[key]
            try:
                self._running[key] = self._runner.place(owner.make_request())
                if priority is Priority.LIVE:
                    self._live[key] = None
            except Exception as error:
                self._end(key, error)
        demands = {key: sequence.demand() for key, sequence in self._running.items()}
        shares = self._scheduler.share(demands)
        return [(self._running[key], count) for key, count in shares.items()]

    def _update_tickets(self) -> None:
        """Of owners that changed. One that runs is looked at again when it has finished, one that
        is retired when that is over."""
        if not self._changed:
            return
        changed, self._changed = self._changed, {}
        retired = {sequence.key for sequence in self._retired}
        for key in changed:
            if self._scheduler.is_running(key) or key in retired:
                continue
            try:
                self._update_ticket(key)
            except Exception as error:
                self._end(key, error)

    def _update_ticket(self, key: str) -> None:
        priority, owner = self._owners[key]
        if owner.wants_request():
            self._scheduler.want(key, priority, owner.cost(), is_urgent=owner.is_urgent)
            if self.times is not None:
                self.times.wanted(key)
        else:
            self._forget_ticket(key)

    def _forget_ticket(self, key: str) -> None:
        self._scheduler.forget(key)
        if self.times is not None:
            self.times.forget(key)

    def _launch(self, work: list[tuple[Running, int]]) -> None:
        finish = self._runner.launch(work)
        self._launched.append((finish, [sequence for sequence, _ in work]))

    def _wait(self, *, is_idle: bool) -> list[Failure]:
        """Of the oldest step, unless it may overlap with the next one."""
        if len(self._launched) <= (0 if is_idle else self._overlap):
            return []
        finish, _ = self._launched.popleft()
        failures = finish()
        self._release_retired()
        return failures

    def _commit(self, failures: list[Failure]) -> None:
        for failure in failures:
            if failure.key in self._running:  # not dropped while the step was on its way
                if failure.bug is not None:
                    self._count(failure.bug)
                self._fail(failure)
        for key, streamer in list(self._streamers.items()):
            if (running := self._running.get(key)) is not None:
                try:
                    events = streamer.follow(running)
                except Exception as error:
                    self._end(key, error)
                else:
                    self._events.extend(events)
                    self._num_bugs = 0 if events else self._num_bugs  # it goes well with this one
        done = [item for item in self._running.items() if item[1].phase is Phase.DONE]
        for key, sequence in done:
            try:
                self._finish(key, sequence)
            except Exception as error:
                self._end(key, error)
        self._release_retired()

    def _finish(self, key: str, sequence: Running) -> None:
        result = sequence.result()
        del self._running[key]
        self._live.pop(key, None)
        self._retired.append(sequence)
        self._scheduler.finish(key)
        self._num_requests += 1
        self._num_drafted += sequence.num_drafted
        self._num_accepted += result.num_accepted
        self._num_passes += result.num_passes
        self._changed[key] = None
        if self.times is not None:
            self._events.append(self._done(key, *self.times.ended(key)))
        self._events.extend(self._owners[key][1].absorb(result))
        self._num_bugs = 0
        self.drop_if_done(key)

    def _done(self, key: str, waited: float, took: float) -> RequestDone:
        session = self._session_of.get(key, "")
        work = key.removeprefix(f"{session}/")
        return RequestDone(session, work, self._owners[key][0].name.lower(), waited, took)

    def _retire(self, sequence: Running) -> None:
        """A request is over. Its room is free as soon as no launched step writes to it; what such a
        step sampled for it is nobody's."""
        sequence.phase = Phase.DONE
        self._retired.append(sequence)
        self._release_retired()

    def _release_retired(self) -> None:
        if not self._retired:
            return
        busy = {id(sequence) for _, sequences in self._launched for sequence in sequences}
        free = [sequence for sequence in self._retired if id(sequence) not in busy]
        self._retired = [sequence for sequence in self._retired if id(sequence) in busy]
        for sequence in free:
            self._runner.release(sequence)
            if sequence.key in self._owners:
                self._changed[sequence.key] = None
            else:
                self._runner.forget(sequence.key)

    def _end(self, key: str, error: Exception) -> None:
        """A request was refused, or is the one with which a bug shows: others go on. Their clients
        are told; so if an owner cannot even say that it failed, that is raised."""
        if isinstance(error, RequestError):
            self._fail(Failure(key, error.code, str(error)))
            return
        raise_if_lost(error)
        self._count(error)
        log.error("a bug with one request", exc_info=error)
        self._fail(Failure.of(key, error, "the request could not be carried out"))

    def _count(self, bug: Exception) -> None:
        """Raises it if it is no one request's."""
        self._num_bugs += 1
        if self._num_bugs > MAX_BUGS:
            raise bug

    def _fail(self, failure: Failure) -> None:
        about = {"session": self._session_of.get(failure.key), "work": failure.key}
        # What was refused is the client's own, and told to it: here it is for those who debug.
        level = logging.ERROR if failure.code in OUR_FAULT else logging.DEBUG
        log.log(level, "%s: %s", failure.code, failure.message, extra={"fields": about})
        self._events.extend(self._owners[failure.key][1].fail(failure.code, failure.message))
        self.drop(failure.key)

    def check(self) -> None:
        """Raise AssertionError if anything leaked. Cheap; for tests and idle moments."""
        self._scheduler.check()
        self._runner.check(len(self._running) + len(self._retired))
        assert self._changed.keys() <= self._owners.keys()
        live = {key for key in self._running if self._owners[key][0] is Priority.LIVE}
        assert self._live.keys() == live
        looked_at = self._owners.keys() - self._changed.keys() - self._running.keys()
        for key in looked_at - {sequence.key for sequence in self._retired}:
            assert self._owners[key][1].wants_request() == self._scheduler.is_known(key), key
        assert self._counts.total() == len(self._owners)
        if not self._owners:
            assert not self._running and not any(self._sessions.values()) and not self._session_of
