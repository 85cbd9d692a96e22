"""How evenly answers are written."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import Histogram

from lookhear.engine.messages import AnswerCall, AnswerCompleted, AnswerFailed, AnswerText, Event


class Cadence:
    """Observes the time between two pieces of text of each answer. clock: seconds, monotonic."""

    def __init__(self, histogram: Histogram, clock: Callable[[], float]) -> None:
        self._histogram = histogram
        self._clock = clock
        self._last: dict[str, float] = {}  # when, by answer

    def said(self, event: Event) -> None:
        """The engine said this; what is about no answer is passed over."""
        match event:
            case AnswerText(answer=answer) | AnswerCall(answer=answer):
                now = self._clock()
                if (before := self._last.get(answer)) is not None:
                    self._histogram.observe(now - before)
                self._last[answer] = now
            case AnswerCompleted(answer=answer) | AnswerFailed(answer=answer):
                self._last.pop(answer, None)
            case _:
                pass
