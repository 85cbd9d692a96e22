"""Gaps between the pieces of an answer, each answer by itself."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lookhear.engine.messages import AnswerCompleted, AnswerText, AnswerUsage
from lookhear.gateway.telemetry.cadence import Cadence
from lookhear.gateway.telemetry.metrics import Metrics

NAME = "lookhear_inter_token_seconds"


@given(pieces=st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 100)), max_size=30))
def test_each_gap_is_counted_once_and_to_its_own_answer(pieces: list[tuple[str, int]]) -> None:
    metrics, now, whole = Metrics(), 0, dict[str, list[int]]()
    cadence = Cadence(metrics.inter_token, lambda: float(now))
    for answer, pause in pieces:
        now += pause
        whole.setdefault(answer, []).append(now)
        cadence.said(AnswerText("s", answer, "text"))
    count = metrics.registry.get_sample_value(f"{NAME}_count")
    total = metrics.registry.get_sample_value(f"{NAME}_sum")
    assert count == sum(len(times) - 1 for times in whole.values())
    assert total == sum(times[-1] - times[0] for times in whole.values())


def test_an_answer_of_the_same_name_begins_anew() -> None:
    metrics = Metrics()
    cadence = Cadence(metrics.inter_token, lambda: 0.0)
    cadence.said(AnswerText("s", "a", "text"))
    cadence.said(AnswerCompleted("s", "a", "stop", AnswerUsage(1, 1)))
    cadence.said(AnswerText("s", "a", "text"))
    assert metrics.registry.get_sample_value(f"{NAME}_count") == 0
