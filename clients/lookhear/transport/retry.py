"""How a lost connection is sought again, and when no more."""

from __future__ import annotations

from dataclasses import dataclass

from lookhear.errors import NOT_READY, ServerError


@dataclass(frozen=True, slots=True)
class Retry:
    """How a lost connection is sought again: it waits first, 2 first, 4 first, … seconds."""

    tries: int = 5  # without any success
    first: float = 0.5  # seconds
    cap: float = 8.0  # seconds: no wait is longer
    loading: float = 600.0  # seconds that a server may say that its model is being loaded

    def delay(self, attempt: int) -> float:
        """Seconds to wait before try number `attempt`, from 0."""
        return min(self.cap, self.first * 2.0**attempt)


class Attempts:
    """How often in a row a connection was lost, or could not be had, with nothing done."""

    def __init__(self, retry: Retry) -> None:
        self.count = 0
        self._retry = retry
        self._loading_since: float | None = None

    def lost(self, now: float, *, useful: bool, loading: bool) -> bool:
        """One is lost; whether to seek another.

        now: seconds, as `time.monotonic`. useful: it got something done, and is worth the full set
        of tries. loading: the server turned us away because its model is still being loaded.
        """
        if useful:
            self.count = 0
        if not loading:
            self._loading_since = None
        elif self._loading_since is None:
            self._loading_since = now
        waited = 0.0 if self._loading_since is None else now - self._loading_since
        return self.count < self._retry.tries or (loading and waited <= self._retry.loading)

    def delay(self) -> float:
        """Seconds to wait before the next one, which is counted with this."""
        self.count += 1
        return self._retry.delay(self.count - 1)


def is_loading(error: Exception | None) -> bool:
    """Whether a server said with this that its model is still being loaded."""
    return isinstance(error, ServerError) and error.code == NOT_READY
