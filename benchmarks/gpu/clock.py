"""An engine driven by a made-up clock, and what that costs the thread: for `benchmarks.host`."""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from benchmarks.gpu.no_device import Launches
from benchmarks.gpu.sampled import EVERY, Sampled
from benchmarks.gpu.wire import Wire
from lookhear.engine.core.core import EngineCore
from lookhear.engine.messages import Message


@dataclass(slots=True)
class Sum:
    """Of one run. seconds: of this thread. acting: of them, what the people of the benchmark took
    to say what they said, about."""

    seconds: dict[str, float] = field(default_factory=lambda: {"submit": 0.0, "step": 0.0})
    acting: float = 0.0
    steps: int = 0
    ticks: int = 0
    rows: int = 0
    launches: int = 0
    encoded: int = 0  # tokens of audio
    threads: float = 0.0  # seconds of those that read and write the socket
    yardstick: list[float] = field(default_factory=list)

    def add(self, other: Sum) -> None:
        """What came behind it."""
        for name, seconds in other.seconds.items():
            self.seconds[name] += seconds
        self.acting += other.acting
        self.steps += other.steps
        self.ticks += other.ticks
        self.rows += other.rows
        self.launches += other.launches
        self.encoded += other.encoded
        self.threads += other.threads
        self.yardstick += other.yardstick


def yardstick() -> float:
    """Seconds of work that is always the same: this machine's speed depends on its neighbours."""
    start = time.thread_time()
    sum(i * i for i in range(2000))
    return time.thread_time() - start


class Load:
    """Messages of a made-up clock, and the steps between them."""

    def __init__(self, core: EngineCore, step: float, wire: Wire | None = None) -> None:
        self._core, self._step, self._wire = core, step, wire
        self._clock = 0.0
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._acts = Sampled()  # what the people of the benchmark do, the core's part included
        self.sum = Sum()

    def now(self) -> float:
        """Seconds on the run's own clock."""
        return self._clock

    def at(self, when: float, number: int, act: Callable[[], None]) -> None:
        """Calls `act` when the clock is at `when`; number: the order of those at the same time."""
        heapq.heappush(self._due, (when, number, act))

    def submit(self, message: Message) -> None:
        """Hands it to the core, through the socket if there is one."""
        message = message if self._wire is None else self._wire.carry(message)
        if not self._acts.is_measured:
            self._core.submit(message)
            return
        start = time.thread_time()
        self._core.submit(message)
        self.sum.acting -= EVERY * (time.thread_time() - start + self._acts.clock)

    def run(self, until: float, count_launches: bool = False) -> Sum:
        """Steps the core up to this second; what the steps cost."""
        self.sum = found = Sum()
        core, began = self._core, self._core.stats()["requests"]
        encoded = core.stats().get("media_tokens_encoded", 0)
        running: dict[str, Any] = core._running
        wire, acts = self._wire, self._acts.seconds
        threads, sent = (0.0, 0.0) if wire is None else (wire.thread_seconds(), wire.sent_seconds)
        while self._clock < until:
            start = time.thread_time()
            while self._due[0][0] <= self._clock:
                self._acts.begin()
                when, number, act = heapq.heappop(self._due)
                act()
                self._acts.end()
            has_work = core.has_work
            found.seconds["submit"] += time.thread_time() - start
            if not has_work:
                self._clock = max(self._clock, self._due[0][0])
                continue
            start = time.thread_time()
            if count_launches:
                with Launches() as launches:
                    core.step()
                found.launches += launches.count
            else:
                events = core.step()
                if wire is not None:
                    wire.send(events)
            found.seconds["step"] += time.thread_time() - start
            found.steps += 1
            if found.steps % 20 == 0:
                found.yardstick.append(yardstick())
            found.rows += len(running)
            self._clock += self._step
        if wire is not None:
            found.threads = wire.thread_seconds() - threads
            found.seconds["submit"] -= wire.sent_seconds - sent
        found.acting += self._acts.seconds - acts
        found.ticks = core.stats()["requests"] - began
        found.encoded = core.stats().get("media_tokens_encoded", 0) - encoded
        return found
