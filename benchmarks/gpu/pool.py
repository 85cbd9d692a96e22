"""Tests carried out by several processes, each ended when a test takes it too long."""

from __future__ import annotations

import json
import os
import queue
import select
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

# Of a process that imports and collects: from a cold disk, eight at once, beside other work, more
# than a minute and a half was seen. One that hangs costs the others nothing.
START_SECONDS = 240.0
BIRTHS = 40  # of processes in all: a card that fails everything ends too


class TestPool:
    """Hands out tests one by one, in their order. ended: called with each outcome, by one thread
    at a time. left_out: the ids that no time was left for, what was cut off included; failures: of
    processes."""

    __test__ = False  # no test of pytest's

    def __init__(
        self,
        root: Path,
        files: Sequence[str],
        environment: Mapping[str, str],
        ended: Callable[[dict[str, Any]], None],
        *,
        workers: int,
        seconds: float,
        test_seconds: float,
    ) -> None:
        self._root, self._files, self._environment = root, list(files), dict(environment)
        self._ended = ended
        self._workers = workers
        self._test_seconds = test_seconds
        self._end = time.monotonic() + seconds
        self._lock = threading.Lock()
        self._waiting: deque[str] | None = None  # until somebody has collected
        self._births = 0
        self._tests: list[dict[str, Any]] = []
        self.left_out: list[str] = []
        self.failures: list[str] = []

    def run(self) -> list[dict[str, Any]]:
        """The outcomes, in the order in which they came."""
        faults: queue.SimpleQueue[BaseException] = queue.SimpleQueue()

        def work() -> None:
            try:
                while self._serve_one():
                    pass
            except BaseException as fault:
                faults.put(fault)

        threads = [threading.Thread(target=work) for _ in range(self._workers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if not faults.empty():
            raise faults.get()
        self.left_out += self._waiting or ()
        if self._waiting is None and not self.failures:
            self.failures.append("no process collected its tests in time")
        return self._tests

    def _serve_one(self) -> bool:
        """One process, as long as it lives; whether another has something to do."""
        with self._lock:
            self._births += 1
            if self._births > BIRTHS or self._left() <= 0 or self._waiting == deque():
                return False
        process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.gpu.worker", *self._files],
            cwd=self._root, env=self._environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        try:
            return self._drive(process)
        finally:
            process.kill()
            for pipe in (process.stdin, process.stdout):
                assert pipe is not None
                pipe.close()
            process.wait()

    def _drive(self, process: subprocess.Popen[bytes]) -> bool:
        assert process.stdin is not None and process.stdout is not None
        lines = Lines(process.stdout.fileno())
        first = lines.read(min(START_SECONDS, self._left()))
        if first is None or first["errors"]:
            what = "collected no tests" if first is None else "could not collect all tests"
            self.failures.append(f"a process of the tests {what} (see above)")
            if first is None:
                return False
        with self._lock:
            if self._waiting is None:
                self._waiting = deque(first["collected"])
        while (name := self._next()) is not None:
            began = time.monotonic()
            limit = min(self._test_seconds, self._left())
            process.stdin.write(name.encode() + b"\n")
            process.stdin.flush()
            found = lines.read(limit)
            if found is None and self._left() <= 0:
                with self._lock:
                    self.left_out.append(name)
                return False
            if found is None:
                took = time.monotonic() - began
                is_late = took >= limit
                found = {
                    "name": name,
                    "outcome": "timeout" if is_late else "died",
                    "seconds": round(took, 2),
                    "properties": {},
                    "message": f"stopped after {limit:.0f} s" if is_late
                    else f"its process ended ({process.wait(10)})",
                    "text": "",
                    "is_usable": False,
                }  # fmt: skip
            is_usable = found.pop("is_usable")
            with self._lock:
                self._tests.append(found)
                self._ended(found)
            if not is_usable:
                return True
        return False

    def _next(self) -> str | None:
        with self._lock:
            if not self._waiting or self._left() <= 0:
                return None
            return self._waiting.popleft()

    def _left(self) -> float:
        return self._end - time.monotonic()


class Lines:
    """Lines of JSON from a pipe, waited for no longer than is said."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._held = b""

    def read(self, seconds: float) -> dict[str, Any] | None:
        """The next line; None when the pipe is closed or nothing came in time."""
        end = time.monotonic() + seconds
        while b"\n" not in self._held:
            ready, _, _ = select.select(
                [self._descriptor], [], [], max(0.0, end - time.monotonic())
            )
            part = os.read(self._descriptor, 65_536) if ready else b""
            if not part:
                return None
            self._held += part
        line, _, self._held = self._held.partition(b"\n")
        found: dict[str, Any] = json.loads(line)
        return found
