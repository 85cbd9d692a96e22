"""All refusals are counted; of the same kind one a minute is told."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lookhear.gateway.telemetry.log import LOGGER
from lookhear.gateway.telemetry.metrics import Metrics
from lookhear.gateway.telemetry.refusals import TOLD_EVERY, Refusals


def fields(record: logging.LogRecord) -> dict[str, Any]:
    found: dict[str, Any] = vars(record)["fields"]
    return found


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(st.sampled_from("ab"), st.floats(0, 40)), max_size=60))
def test_counted_and_told(script: list[tuple[str, float]]) -> None:
    now = 0.0
    metrics = Metrics()
    refusals = Refusals(metrics, lambda: now)
    told: dict[str, list[tuple[float, int]]] = {"a": [], "b": []}

    class Lines(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            assert record.levelno == logging.WARNING and record.getMessage() == "refused"
            told[fields(record)["code"]].append((now, fields(record)["count"]))

    logger, handler = logging.getLogger(LOGGER), Lines()
    logger.addHandler(handler)
    try:
        for reason, seconds in script:
            now += seconds
            refusals.add(reason)
    finally:
        logger.removeHandler(handler)
    for reason, lines in told.items():
        times = [at for at, _ in lines]
        assert all(b - a >= TOLD_EVERY for a, b in zip(times, times[1:], strict=False))
        happened = [r for r, _ in script].count(reason)
        sample = metrics.registry.get_sample_value("lookhear_refused_total", {"code": reason})
        assert (sample or 0) == happened
        assert sum(count for _, count in lines) <= happened
        assert bool(lines) == bool(happened)


@pytest.mark.parametrize("count", [1, 5])
def test_a_line_says_how_many_since_the_last(count: int, caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    refusals = Refusals(Metrics(), lambda: now)
    refusals.add("a")
    for _ in range(count - 1):
        refusals.add("a")
    now = TOLD_EVERY
    refusals.add("a")
    assert [fields(record)["count"] for record in caplog.records] == [1, count]


def test_a_clients_own_mistake_is_counted_alone(caplog: pytest.LogCaptureFixture) -> None:
    metrics = Metrics()
    Refusals(metrics, lambda: 0.0).add("a", is_clients=True)
    assert metrics.registry.get_sample_value("lookhear_refused_total", {"code": "a"}) == 1
    assert not caplog.records
