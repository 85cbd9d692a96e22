"""How long a session's small messages gather before they are read.

To read them, work on them and pass them on costs little more for many than for one. So the more
sessions there are the longer they gather, and longer still while the event loop is late, until it
no longer is: a loop that is late delays everybody by more, and without an end.
"""

from __future__ import annotations

# Seconds per open session, and at most; then less for each more, and at most.
FIRST, USUAL = 0.008, 0.05
MORE, MANY = 0.0005, 0.2
ON_TIME = 0.002  # a timer is that late on a loop with nothing else to do
PER_LAG = 50.0  # seconds for each second by which the loop is later than that
MOST = 0.3  # short beside what a turn waits for silence
MEMORY = 1.0  # seconds over which lateness is averaged


class Gathering:
    """interval: seconds between two observations of the loop."""

    def __init__(self, interval: float) -> None:
        assert 0.0 < interval < MEMORY, interval
        self._share = interval / MEMORY
        self._lag = 0.0

    def observe(self, lag: float) -> None:
        """lag: seconds by which the loop was late just now."""
        self._lag += self._share * (lag - self._lag)

    def seconds(self, sessions: int) -> float:
        """For one of so many open sessions."""
        usual = min(FIRST * sessions, USUAL)
        many = min(usual + MORE * sessions, MANY)
        return min(many + PER_LAG * max(self._lag - ON_TIME, 0.0), MOST)
