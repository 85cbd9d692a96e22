"""The engine proper: messages in, one step at a time, events out. **The main path; read first.**

    submit(message)   a session's audio, a file, an end, a cancellation
    step()            owners with work get tickets -> scheduler admits -> runner encodes and decodes
                      one token (or one prompt with its draft) for all of them -> policies -> events

No sockets, no clock, no threads: `engine.process` wraps it, tests drive it directly.
"""

from __future__ import annotations

import logging

from engine.messages import (
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
    StartTurn,
    TranscribeFile,
    TranscriptionSettings,
    TurnFailed,
)
from engine.request import Phase, Priority, Sequence
from engine.runner import NonFiniteLogits, Runner
from engine.scheduler import Scheduler
from engine.sessions.file import FileTranscription
from engine.sessions.live import LiveConfig, LiveTurn
from engine.sessions.policy import Owner, WindowRule
from engine.sessions.prompt import Prompter

log = logging.getLogger(__name__)


class EngineCore:
    """One model, all its sessions. Every public call belongs to the thread that owns the device.

    name: the model's name on the wire. window: encoder windows of files. max_live_turns: open
    turns over all sessions.
    """

    def __init__(
        self,
        name: str,
        runner: Runner,
        prompter: Prompter,
        scheduler: Scheduler,
        live: LiveConfig,
        file_window: WindowRule,
        max_live_turns: int,
    ) -> None:
        self._name = name
        self._runner = runner
        self._prompter = prompter
        self._scheduler = scheduler
        self._live = live
        self._file_window = file_window
        self._max_live_turns = max_live_turns
        self._sessions: dict[str, set[str]] = {}  # session -> keys of its open turns
        self._turns: dict[str, LiveTurn] = {}
        self._owners: dict[str, tuple[Priority, Owner]] = {}
        self._running: dict[str, Sequence] = {}
        self._events: list[Event] = []
        self._num_steps = self._num_requests = 0
        self._num_drafted = self._num_accepted = 0

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
            case Ping(number):
                self._events.append(
                    Pong(
                        number,
                        steps=self._num_steps,
                        requests=self._num_requests,
                        drafted=self._num_drafted,
                        accepted=self._num_accepted,
                        live_turns=len(self._turns),
                        waiting=self._scheduler.num_waiting,
                    )
                )

    def _settings_error(self, settings: TranscriptionSettings) -> tuple[str, str] | None:
        """(code, message) if the settings cannot be served."""
        languages = self._prompter.languages
        if settings.language and languages and settings.language not in languages:
            known = ", ".join(languages)
            return "invalid_language", f"language: expected {known}; got {settings.language!r}"
        if settings.task not in ("transcribe", "translate"):
            return "invalid_task", f"task: expected transcribe or translate; got {settings.task!r}"
        if settings.task == "translate" and not languages:
            return "invalid_task", f"task: {self._name} has one language and cannot translate"
        return None

    def _start_turn(self, message: StartTurn) -> None:
        session, turn = message.session, message.turn
        key = _key(session, turn)
        error = self._settings_error(message.settings)
        if error is None and len(self._turns) >= self._max_live_turns:
            error = (
                "too_many_turns",
                f"this engine listens to {self._max_live_turns} speakers at once; all are taken",
            )
        if error is not None:
            self._events.append(TurnFailed(session, turn, *error))
            return
        live = LiveTurn(session, turn, message.settings, self._prompter, self._live)
        self._turns[key] = live
        self._owners[key] = (Priority.LIVE, live)
        self._sessions.setdefault(session, set()).add(key)

    def _append(self, key: str, message: AppendAudio) -> None:
        live = self._turns.get(key)
        if live is None:
            return  # failed or cancelled; the gateway may not have heard of it yet
        limit = self._live.max_samples
        if live.num_samples + len(message.samples) > limit:
            seconds = limit // 16_000
            text = f"the turn is longer than {seconds} s; commit it in shorter pieces"
            self._events.extend(live.fail("audio_too_long", text))
            self._drop(key)
            return
        live.append(message.samples, message.voiced_until)
        self._events.extend(live.settle())

    def _start_file(self, message: TranscribeFile) -> None:
        error = self._settings_error(message.settings)
        if error is None and len(message.samples) > self._live.max_samples:
            error = (
                "audio_too_long",
                f"file: expected at most {self._live.max_samples // 16_000} s of audio,"
                f" got {len(message.samples) / 16_000:.0f} s",
            )
        if error is not None:
            self._events.append(FileFailed(message.request, *error))
            return
        window, words = self._file_window, message.settings.words
        # Full windows are one step of the rule long.
        cap = window.longest - window.margin if window.step < window.longest else None
        job = FileTranscription(message, self._prompter, window, cap, words)
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
        for keys in self._sessions.values():
            keys.discard(key)

    def _drop_if_done(self, key: str) -> None:
        owner = self._owners.get(key)
        if owner is not None and owner[1].is_done:
            self._drop(key)

    # --- steps -----------------------------------------------------------------------------------

    @property
    def has_work(self) -> bool:
        """Whether `step` would do anything."""
        return bool(self._running or self._events or self._scheduler.num_waiting) or any(
            owner.wants_request() for _, owner in self._owners.values()
        )

    def step(self) -> list[Event]:
        """Run the next batch: admit, encode, one forward pass for all, hand out what is done."""
        self._num_steps += 1
        self._collect_tickets()
        self._start(self._scheduler.admit())
        self._forward()
        for key, sequence in list(self._running.items()):
            if sequence.phase is Phase.DONE:
                self._finish(key, sequence)
        events, self._events = self._events, []
        return events

    def _collect_tickets(self) -> None:
        for key, (priority, owner) in self._owners.items():
            if not self._scheduler.is_running(key):
                if owner.wants_request():
                    self._scheduler.want(key, priority, owner.cost())
                else:
                    self._scheduler.forget(key)

    def _start(self, keys: list[str]) -> None:
        requests = [self._owners[key][1].make_request() for key in keys]
        try:
            started = self._runner.start(requests)
        except (
            RuntimeError
        ) as error:  # out of memory, mostly: these requests fail, the rest goes on
            log.exception("encoding failed")
            for key in keys:
                self._fail(key, "server_error", f"the audio could not be encoded: {error}")
            return
        self._running.update(zip(keys, started, strict=True))

    def _forward(self) -> None:
        if not self._running:
            return
        try:
            self._runner.step(list(self._running.values()))
        except NonFiniteLogits as error:
            self._fail(error.key, "model_error", str(error))
        except RuntimeError as error:
            log.exception("decoding failed")
            for key in list(self._running):
                self._fail(key, "server_error", f"the audio could not be decoded: {error}")

    def _finish(self, key: str, sequence: Sequence) -> None:
        self._runner.release(sequence)
        del self._running[key]
        self._scheduler.finish(key)
        self._num_requests += 1
        self._num_drafted += len(sequence.request.draft)
        self._num_accepted += sequence.num_accepted
        self._events.extend(self._owners[key][1].absorb(sequence.result()))
        self._drop_if_done(key)

    def _fail(self, key: str, code: str, message: str) -> None:
        self._events.extend(self._owners[key][1].fail(code, message))
        self._drop(key)

    def check(self) -> None:
        """Raise AssertionError if anything leaked. Cheap; for tests and idle moments."""
        self._scheduler.check()
        self._runner.check(len(self._running))
        assert set(self._turns) <= set(self._owners)
        if not self._owners:
            assert not self._running and not any(self._sessions.values())


def _key(session: str, turn: str) -> str:
    return f"{session}/{turn}"
