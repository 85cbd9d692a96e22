"""What a session adds to the metrics."""

from __future__ import annotations

import pytest

from lookhear.engine.messages import (
    AnswerSettings,
    AnswerStarted,
    AnswerText,
    AnswerUsage,
    Event,
    StartAnswer,
)
from lookhear.gateway.realtime.protocol.outputs import GuessAsked
from lookhear.gateway.realtime.session.tally import Tally
from lookhear.gateway.telemetry.metrics import Metrics


class Counting:
    """A session whose clock goes on by a second with each event."""

    def __init__(self) -> None:
        self.now = 0.0
        self.metrics = Metrics()
        self.tally = Tally("s", self.metrics, lambda: self.now)

    def guess(self, name: str) -> None:
        settings = AnswerSettings("m")
        self.tally.submitted(StartAnswer("s", name, settings, [], is_eager=True))

    def hear(self, *events: Event) -> None:
        for event in events:
            self.now += 1.0
            self.tally.said(event)

    def counted(self, name: str) -> float | None:
        return self.metrics.registry.get_sample_value(f"lookhear_{name}")


def answer(name: str) -> list[Event]:
    words = [AnswerText("s", name, word) for word in "abc"]
    return [AnswerStarted("s", name, AnswerUsage()), *words]


def test_a_guess_that_nobody_asks_for_is_no_answer() -> None:
    counting = Counting()
    for name in ("eager.1", "eager.2"):
        counting.guess(name)
        counting.hear(*answer(name))
    assert counting.counted("first_token_seconds_count") == 0
    assert counting.counted("inter_token_seconds_count") == 0


@pytest.mark.parametrize(("said", "waited", "gaps"), [(0, 1.0, 2), (1, 0.0, 2), (3, 0.0, 0)])
def test_one_that_is_asked_for_is_an_answer_from_then_on(
    said: int, waited: float, gaps: int
) -> None:
    """said: events of it before."""
    counting = Counting()
    counting.guess("eager.1")
    events = answer("eager.1")
    counting.hear(*events[:said])
    counting.tally.found(GuessAsked("eager.1"))
    counting.hear(*events[said:])
    assert counting.counted("first_token_seconds_count") == 1
    assert counting.counted("first_token_seconds_sum") == waited
    assert counting.counted("inter_token_seconds_count") == gaps
