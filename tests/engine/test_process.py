"""How an engine's process ends: 0 is the gateway's word; all else is said, and told."""

from __future__ import annotations

import dataclasses
import json
import logging
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any, cast

import numpy as np
import pytest

from lookhear.engine import process
from lookhear.engine.client.channel import Channel
from lookhear.engine.client.wire import PREFIX, Codec
from lookhear.engine.config import EngineConfig
from lookhear.engine.core.core import EngineCore
from lookhear.engine.families import build
from lookhear.engine.messages import (
    AppendAudio,
    EngineFailed,
    Event,
    Message,
    ModelCard,
    Ping,
    Pong,
    Ready,
    Shutdown,
)

AUDIO = AppendAudio("s", "t", np.zeros(16, np.float32), 0)


class ScriptedCore:
    """Answers pings; what is said to it about speech is too much for its memory."""

    def __init__(self) -> None:
        self._events: list[Event] = []
        self.has_work = False
        self.last_step = None

    def submit(self, message: Message) -> None:
        self.has_work = isinstance(message, AppendAudio)
        if isinstance(message, Ping):
            self._events.append(Pong(message.number))

    def step(self) -> list[Event]:
        if self.has_work:
            raise MemoryError
        events, self._events = self._events, []
        return events


class Gateway:
    """The other end of the socket of a process that runs on a thread."""

    def __init__(self) -> None:
        self.socket, theirs = socket.socketpair()
        config = json.dumps(dataclasses.asdict(EngineConfig(model="scripted")))
        arguments = ["--fd", str(theirs.detach()), "--config", config]
        self._codec, self._status = Codec(), -1
        self._stream = self.socket.makefile("rb")

        def run() -> None:
            self._status = process.main(arguments)

        self._thread = threading.Thread(target=run)
        self._thread.start()

    def send(self, message: Message) -> None:
        self.socket.sendall(b"".join(self._codec.encode(message)))

    def receive(self) -> Event:
        header, payload = PREFIX.unpack(self._stream.read(PREFIX.size))
        event: Any = self._codec.decode(self._stream.read(header), self._stream.read(payload))
        return cast(Event, event)

    def status(self) -> int:
        self._thread.join(60)
        assert not self._thread.is_alive()
        return self._status

    def hang_up(self) -> None:
        self._stream.close()
        self.socket.close()


@pytest.fixture
def gateway(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gateway]:
    card = ModelCard("scripted", "none", [], 0, 0)
    config = EngineConfig(model="scripted")
    built = build.Built(ScriptedCore(), card, config, "cpu", "none")  # type: ignore[arg-type]
    monkeypatch.setattr(build, "build_core", lambda *_: built)
    monkeypatch.setattr(process, "keep_freed_memory", lambda: None)
    monkeypatch.setattr(process, "tended", lambda _: nullcontext(lambda now, is_idle: None))
    gateway = Gateway()
    while not isinstance(gateway.receive(), Ready):
        pass
    yield gateway
    gateway.hang_up()
    gateway.status()


@pytest.mark.parametrize("is_told", [True, False])
def test_it_ends_well_with_its_gateway(gateway: Gateway, is_told: bool) -> None:
    gateway.send(Ping(7))
    answer = gateway.receive()
    assert isinstance(answer, Pong) and answer.number == 7 and answer.longest_step > 0
    if is_told:
        gateway.send(Shutdown())
    else:
        gateway.hang_up()
    assert gateway.status() == 0


@pytest.mark.parametrize("where", ["in a step", "on the way in", "on the way out"])
def test_without_memory_it_says_so_and_does_not_end_well(
    gateway: Gateway, where: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)

    def too_much(*_: Any) -> Any:
        raise MemoryError

    if where == "on the way in":
        monkeypatch.setattr(Codec, "decode", too_much)
    encode = gateway._codec.encode
    frame = b"".join(encode(Ping(1) if where == "on the way out" else AUDIO))
    if where == "on the way out":
        monkeypatch.setattr(Codec, "encode", too_much)
    gateway.socket.sendall(frame)
    assert gateway.status() == process.EXIT_STOPPED != 0
    assert "the engine stopped" in caplog.text and "MemoryError" in caplog.text
    if where == "in a step":
        failed = gateway.receive()
        assert failed == EngineFailed("engine_died", "the engine stopped: out of memory")


class SlowCore(ScriptedCore):
    """Every message takes as long as may be spent on messages between two steps."""

    def __init__(self, clock: list[float]) -> None:
        super().__init__()
        self.has_work = False
        self.told: list[str] = []
        self._clock = clock

    def submit(self, message: Message) -> None:
        self._clock[0] += process.TAKING_SECONDS
        assert isinstance(message, Ping)
        self.told.append(f"take {message.number}")

    def step(self) -> list[Event]:
        self.told.append("step")
        return []


def test_what_takes_long_to_be_taken_leaves_the_steps_their_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Messages are taken in order, all of them, with a step between two that take long."""
    clock = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])
    core = SlowCore(clock)
    theirs, ours = socket.socketpair()
    channel = Channel(ours)
    for number in range(4):
        channel.inbox.put(Ping(number))
    channel.inbox.put(Shutdown())
    config = EngineConfig(model="scripted")
    status = process.step_until_told(
        cast(EngineCore, core), None, config, channel, lambda now, is_idle: None
    )
    assert status == 0
    each = [[f"take {number}", "step"] for number in range(4)]
    assert core.told == [said for pair in each for said in pair]
    theirs.close()
    channel.close()


def test_what_is_taken_at_once_is_of_one_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "TAKING_SECONDS", 1e9)
    core = SlowCore([0.0])
    theirs, ours = socket.socketpair()
    channel = Channel(ours)
    for number in range(3):
        channel.inbox.put(Ping(number))
    for _ in range(2):  # what is behind the end is not taken
        channel.inbox.put(None, 0)
    config = EngineConfig(model="scripted")
    process.step_until_told(
        cast(EngineCore, core), None, config, channel, lambda now, is_idle: None
    )
    assert core.told == [f"take {number}" for number in range(3)]
    theirs.close()
    channel.close()
