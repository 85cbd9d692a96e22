"""When a session leaves a server that is going away: as soon as nothing of it was under way for a
short while, for a word may just have begun, and what was sent may not have come yet."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

QUIET_SECONDS = 1.0


class Departure:
    """Of one session, from the moment at which its server begins to drain.

    is_idle: whether no turn and no answer is under way. is_resting: whether no frame waits or is
    worked on either; a microphone that sends silence rests now and then. leave: called once, after
    `QUIET_SECONDS` of idleness, in a rest.
    """

    def __init__(
        self,
        is_idle: Callable[[], bool],
        is_resting: Callable[[], bool],
        leave: Callable[[], None],
    ) -> None:
        self._is_idle = is_idle
        self._is_resting = is_resting
        self._leave = leave
        self._timer: asyncio.TimerHandle | None = None
        self.look()

    def look(self) -> None:
        """Something has come, or is over."""
        if not self._is_idle():
            self.cancel()
        elif self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(QUIET_SECONDS, self._was_quiet)

    def cancel(self) -> None:
        """It does not leave by itself, or is gone."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _was_quiet(self) -> None:
        self._timer = None
        if self._is_idle() and self._is_resting():
            self._leave()
        else:
            self.look()
