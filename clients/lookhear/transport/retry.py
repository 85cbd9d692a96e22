"""How a lost connection is sought again, and when no more."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from lookhear.errors import NOT_READY, ServerError


@dataclass(frozen=True, slots=True)
class Retry:
    """How a lost connection is sought again: it waits first, 2 first, 4 first, … seconds, each time
    a little more or less, so that a server's clients do not all come back at once. A server that
    says when to come back (`Retry-After`) is not asked sooner."""

    tries: int | None = None  # without any success; None: as many as there is time for
    first: float = 0.5  # seconds
    cap: float = 8.0  # seconds: no wait is longer, unless the server asks for it
    loading: float = 600.0  # seconds that a server may say that its model is being loaded
    seconds: float | None = None  # without any success; None: as long as what was sent is kept
    jitter: float = 0.2  # by this share of it a wait is longer or shorter
    refused: float = 60.0  # seconds that a server may be full before it lets us in the first time

    def delay(self, attempt: int) -> float:
        """Seconds to wait before try number `attempt`, from 0, but for the jitter."""
        return min(self.cap, self.first * 2.0 ** min(attempt, 60))


class Attempts:
    """How long and how often in a row a connection was lost, or could not be had, with nothing
    done. chance: draws from 0 to 1."""

    def __init__(self, retry: Retry, chance: Callable[[], float] = random.random) -> None:
        self.count = 0
        self.seconds = 0.0  # since the first of the row was lost
        self._retry = retry
        self._chance = chance
        self._since: float | None = None
        self._loading_since: float | None = None
        self._told = 0.0

    def lost(
        self,
        now: float,
        *,
        patience: float,
        useful: bool = False,
        loading: bool = False,
        told: float | None = None,
    ) -> bool:
        """One is lost; whether to seek another.

        now: seconds, as `time.monotonic`. patience: seconds for which it is sought. useful: it got
        something done: a new row begins. loading: the server turned us away because its model is
        still being loaded. told: seconds after which it said that we may come back.
        """
        if useful or self._since is None:
            self.count, self._since = 0, now
        self.seconds = now - self._since
        self._told = told or 0.0
        if not loading:
            self._loading_since = None
        elif self._loading_since is None:
            self._loading_since = now
        waited = 0.0 if self._loading_since is None else now - self._loading_since
        has_tries = self._retry.tries is None or self.count < self._retry.tries
        has_time = self.seconds < patience and self.seconds + self._told <= patience
        return (has_tries and has_time) or (loading and waited <= self._retry.loading)

    def delay(self) -> float:
        """Seconds to wait before the next one, which is counted with this."""
        self.count += 1
        jitter, chance = self._retry.jitter, self._chance()
        own = self._retry.delay(self.count - 1) * (1 + jitter * (2 * chance - 1))
        return max(own, self._told * (1 + jitter * chance))


def is_loading(error: Exception | None) -> bool:
    """Whether a server said with this that its model is still being loaded."""
    return isinstance(error, ServerError) and error.code == NOT_READY
