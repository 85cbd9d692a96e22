"""Who is turned away before there is a request or a session: counted, and told now and then."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable

from lookhear.gateway.telemetry.log import log_event
from lookhear.gateway.telemetry.metrics import Metrics

TOLD_EVERY = 60.0  # seconds: whoever is turned away by the thousand must not fill a disk


class Refusals:
    """clock: seconds, monotonic."""

    def __init__(self, metrics: Metrics, clock: Callable[[], float]) -> None:
        self._metrics = metrics
        self._clock = clock
        self._told: dict[str, float] = {}  # when last, by reason
        self._untold: Counter[str] = Counter()

    def add(self, reason: str, *, is_clients: bool = False) -> None:
        """One more. reason: one of few machine words. is_clients: the client's own mistake, which
        is nobody's to mend here, and which a line of its own tells."""
        self._metrics.refused.labels(reason).inc()
        if is_clients:
            return
        self._untold[reason] += 1
        now = self._clock()
        if reason not in self._told or now - self._told[reason] >= TOLD_EVERY:
            self._told[reason] = now
            count = self._untold.pop(reason)
            log_event("refused", level=logging.WARNING, code=reason, count=count)
