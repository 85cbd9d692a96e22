"""What something small takes that is done very often: by the clock of the thread, now and then."""

from __future__ import annotations

import time

EVERY = 16  # times: the clock takes longer than what it measures


class Sampled:
    """seconds: of the thread that was in it, about. clock: those that asking the clock takes."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._count = 0
        self._began = 0.0
        tries = [-time.thread_time() + time.thread_time() for _ in range(100)]
        self.clock = sorted(tries)[len(tries) // 2]

    @property
    def is_measured(self) -> bool:
        """Whether this time is one of those that are."""
        return self._count % EVERY == 0

    def begin(self) -> None:
        """Once more."""
        self._count += 1
        if self.is_measured:
            self._began = time.thread_time()

    def end(self) -> None:
        """Behind each `begin`."""
        if self.is_measured:
            self.seconds += EVERY * max(0.0, time.thread_time() - self._began - self.clock)
